/*
 * The dashboard refetches its page every five seconds. This keeps that from happening where it would disturb: in a tab
 * that nobody sees, while a form is open or filled in, and when the operator has switched it off, which is remembered.
 */
(() => {
  'use strict';
  const KEY = 'solid-dashboard-live';
  const page = document.getElementById('page');
  const box = document.getElementById('live');
  const stored = () => {
    try {
      return localStorage.getItem(KEY) !== 'off';
    } catch {
      return true; // a browser that keeps nothing
    }
  };
  box.checked = stored();
  box.addEventListener('change', () => {
    try {
      localStorage.setItem(KEY, box.checked ? 'on' : 'off');
    } catch {
      // it holds for this page then
    }
  });

  // On a narrow screen the pages are a row that scrolls.
  document.querySelector('.pages [aria-current]')?.scrollIntoView({ inline: 'center', block: 'nearest' });

  const busy = () =>
    document.hidden ||
    !box.checked ||
    page.querySelector('details[open]') !== null ||
    (document.activeElement !== null && document.activeElement.closest('form') !== null) ||
    String(document.getSelection()) !== '';

  page.addEventListener('htmx:before:request', (event) => {
    if (event.target === page && busy()) event.preventDefault();
  });

  // On a narrow screen a table is a list, whose cells say what they are.
  const label = () => {
    for (const table of page.querySelectorAll('table')) {
      const names = [...table.querySelectorAll('th')].map((cell) => cell.textContent);
      for (const row of table.tBodies[0].rows) {
        [...row.cells].forEach((cell, n) => {
          if (names[n] && n > 0) cell.dataset.label = names[n];
        });
      }
    }
  };
  label();
  page.addEventListener('htmx:after:swap', label);
})();
