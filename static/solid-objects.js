/*
 * Live views of Solid Objects: one WebSocket per page, htmx 4 (4.0.1 or later) or htmx 2 for the requests.
 *
 *   <script defer src="…/htmx.js"></script>
 *   <script defer src="…/solid-objects.js" data-base="/solid"></script>
 *
 * State lives in the page: an element says in `data-solid` which actors it was rendered from, and at which revision.
 * What is stale is never remembered but computed, from those pairs and the newest pairs that the server announced.
 * So elements may come and go by anyone's hand, and lost or doubled messages end in the same comparison.
 */
(() => {
  'use strict';
  if (window.solidObjects) return; // a boosted page brings the tag along a second time
  window.solidObjects = Object.freeze({ protocol: 1 });

  // -- settings: attributes of the script tag -----------------------------------------------------

  const given = document.currentScript?.dataset ?? {};
  const number = (name, usual) => (Number(given[name] || NaN) >= 0 ? Number(given[name]) : usual);
  const BASE = (given.base ?? '/solid').replace(/\/+$/, '');
  const WAIT = number('wait', 25); // changes within so many ms share one refetch
  const URL_MAX = number('urlMax', 1900); // longest URL of a batch or a poll
  const IDLE = number('idle', 10000); // the socket closes so long after the last live element has left
  const POLL = number('poll', 5000); // between two polls where sockets are blocked
  const TIMEOUT = number('timeout', 10000); // of one of our own requests
  const GRACE = number('grace', 5000); // disconnected for longer: the page is marked as stale
  const LANES = 4; // requests of ours at a time; a browser has six connections, and the user's own actions go first
  const BATCH = given.batch !== 'off';
  const SOCKET = given.socket !== 'off';

  const ROOT = '[data-solid-c]'; // the root of a component; all else with data-solid is a scalar or a listener
  const MARK = 'solid-stale';
  const NAME = /^[\w.-]+$/;
  const HANDLE = /^[!-}]{1,1900}~[\w-]{1,100}$/;
  const FINAL = [401, 403, 404, 410]; // the same question gets the same answer: ask again only for a newer revision

  const now = () => performance.now(); // a clock that nobody sets
  const emit = (target, name, detail = {}, bubbles = false) =>
    target.dispatchEvent(new CustomEvent(name, { detail, bubbles, cancelable: true }));
  const isRoot = (el) => el instanceof Element && el.matches(ROOT);
  const around = (el) => {
    const roots = [];
    for (let up = el?.closest?.(ROOT); up; up = up.parentElement?.closest(ROOT)) roots.push(up);
    return roots;
  };
  const live = () => document.querySelectorAll('[data-solid]');
  const backOff = (n) => Math.min(30000, 250 * 2 ** n) * (0.5 + Math.random() / 2);

  // -- pairs: which incarnation of an actor, at which revision ------------------------------------

  /** Incarnations are decimal text of any length that sorts by birth as a number. */
  const cmp = (i1, r1, i2, r2) => (i1 === i2 ? r1 - r2 : i1.length - i2.length || (i1 > i2 ? 1 : -1));

  const parsed = new WeakMap();

  /**
   * The actors that an element was rendered from; a handle is `stream~MAC`. Filters for people's own HTML let data
   * attributes through: one that is not ours must not get as far as the server, or it would stop the whole page.
   */
  function read(el) {
    const text = el.getAttribute('data-solid');
    if (parsed.get(el)?.text === text) return parsed.get(el).deps;
    let deps = [];
    try {
      deps = JSON.parse(text).map(([h, i, r, n]) => ({ h, s: h.replace(/~[^~]*$/, ''), i: `${i}`, r, n: n ?? ['*'] }));
      if (!deps.every(isSound)) deps = null;
    } catch {
      deps = null;
    }
    if (!deps) console.warn('solid: data-solid is not a list of [handle, incarnation, revision, names]', el);
    parsed.set(el, { text, deps: deps ?? [] });
    return deps ?? [];
  }

  const isSound = ({ h, i, r, n }) =>
    HANDLE.test(h) && /^\d{1,20}$/.test(i) && Number.isSafeInteger(r) && n.every((name) => typeof name === 'string');

  const write = (el, deps) => el.setAttribute('data-solid', JSON.stringify(deps.map((d) => [d.h, d.i, d.r, d.n])));

  // Per actor {h, i, r, floor, changed: name → revision, vals: name → {v, i, r}, later, sent, heard}. Below `floor`
  // we do not know what changed, so everything counts as changed. `later` spreads refetches. `sent`, `heard`: asked
  // and answered on this connection. The end of an incarnation is at revision Infinity: newer than all before it.
  const streams = new Map();
  const gone = new Set(); // handles that the server will not serve any more

  const NEVER = '0'; // the incarnation of an actor that does not exist; its revision is 0
  const isOver = (d) => streams.get(d.s)?.r === Infinity;

  /** The observables of one dependency that have changed since it was rendered; null: it is up to date. */
  function changes(d) {
    const s = streams.get(d.s);
    if (!s || gone.has(d.h) || isOver(d) || cmp(s.i, s.r, d.i, d.r) <= 0) return null;
    if (s.i !== d.i || d.r < s.floor) return d.n;
    const names = d.n.includes('*') ? [...s.changed.keys()] : d.n;
    const newer = names.filter((name) => s.changed.get(name) > d.r);
    return newer.length ? newer : null;
  }

  const stale = (el) => read(el).some(changes);

  /** What the page has heard of these elements' actors: another text when something newer was announced. */
  const wanted = (els) => {
    const known = els.flatMap(read).filter((d) => streams.has(d.s));
    return [...new Set(known.map(({ s }) => `${s}@${streams.get(s).i}.${streams.get(s).r}`))].join(' ');
  };

  /** Take what a message says about one actor. */
  function advance(m, asked) {
    const s = streams.get(m.s);
    if (s && asked) s.heard = true;
    if (!s || cmp(m.i, m.r, s.i, s.r) < 0) return;
    if (m.i !== s.i) {
      // A request for the dead incarnation cannot bring anything that is worth waiting for.
      for (const b of busy.values()) if (read(b.el).some((d) => d.s === m.s)) abort(b);
      s.changed.clear();
      s.vals.clear();
    }
    // Names unknown, or the message before this one never came: all may have changed.
    if (m.i !== s.i || !m.n || m.p > s.r) s.floor = m.r;
    else for (const name of m.n) s.changed.set(name, m.r);
    Object.assign(s, { i: m.i, r: m.r });
    for (const [name, v] of Object.entries(m.v ?? {})) s.vals.set(name, { v, i: m.i, r: m.r });
    if (m.j && s.later < now()) s.later = now() + Math.random() * Math.min(m.j, 10000);
  }

  /** Take a frame: one message or a list of them. */
  function receive(frame) {
    for (const m of [frame].flat()) {
      if (m.t === 'hello') beat = m.hb || beat;
      if (m.t === 'inv') advance(m, false);
      if (m.t === 'sub') m.s.forEach((state) => advance(state, true));
      if (m.t === 'gone' && streams.has(m.s)) {
        const s = streams.get(m.s);
        if (m.why === 'deleted') {
          // It may be used anew: the page goes on watching it, as one that does not exist yet.
          Object.assign(s, { r: Infinity, sent: false, heard: true });
          s.vals.clear();
        } else {
          gone.add(s.h);
          streams.delete(m.s);
        }
        emit(document, 'solid:gone', { stream: m.s, why: m.why });
      }
      if (m.t === 'ev' && NAME.test(m.n)) {
        const detail = { stream: m.s, name: m.n, data: m.d, incarnation: m.i, revision: m.r };
        for (const el of live()) if (read(el).some((d) => d.s === m.s)) emit(el, `solid:on:${m.n}`, detail);
        emit(document, 'solid:event', detail);
      }
    }
    scan();
  }

  // -- the page against what is known -------------------------------------------------------------

  /** Compare the whole page: paint, subscribe, unsubscribe, plan refetches. Runs after each message and mutation. */
  function scan() {
    const seen = new Map();
    const born = new Set();
    const barred = new Set();
    let due = false;
    for (const el of live()) {
      const deps = read(el);
      for (const d of deps) {
        if (gone.has(d.h)) barred.add(d.h);
        if (gone.has(d.h)) continue;
        if (!seen.has(d.s)) seen.set(d.s, d.h);
        if (!streams.has(d.s)) {
          born.add(d.s);
          streams.set(d.s, { changed: new Map(), vals: new Map(), later: 0, i: d.i, r: Infinity });
        }
        const s = streams.get(d.s);
        // A new stream starts at the lowest pair on the page: the answer then covers every element.
        if (born.has(d.s) && cmp(d.i, d.r, s.i, s.r) < 0) Object.assign(s, { i: d.i, r: d.r, floor: d.r });
      }
      if (el.hasAttribute('data-solid-text')) paint(el, deps);
      else due ||= stale(el);
      const t = tries.get(el.id);
      const lost = deps.some((d) => gone.has(d.h) || (isOver(d) && d.i !== NEVER));
      const mark = lost || (isRoot(el) && t && (t.final || t.n > 1) && stale(el)) || false;
      if (el.classList.contains(MARK) !== mark) el.classList.toggle(MARK, mark);
    }
    for (const handle of gone) if (!barred.has(handle)) gone.delete(handle);
    for (const el of document.querySelectorAll(OPENABLE)) if (!served.has(el)) served.set(el, el.open);
    const left = [...streams.keys()].filter((id) => !seen.has(id) && streams.delete(id));
    if (left.length && opened) socket.send(JSON.stringify({ t: 'unsub', s: left }));
    for (const [id, s] of streams) if (s.h !== seen.get(id)) Object.assign(s, { h: seen.get(id), sent: false });
    // For an element that is gone nobody waits any more.
    for (const [id, b] of busy) if (!document.getElementById(id) && busy.delete(id)) abort(b);
    if (due) wake(now() + WAIT);
    link();
    assess();
  }

  /** A scalar shows its value without a request; as text, so nothing in it can be markup. */
  function paint(el, deps) {
    const name = el.getAttribute('data-solid-text');
    const d = deps.find((dep) => dep.n.includes(name)) ?? deps[0];
    const val = d && streams.get(d.s)?.vals.get(name);
    if (!val || cmp(val.i, val.r, d.i, d.r) <= 0) return;
    el.textContent = `${val.v ?? ''}`;
    write(el, deps.map((dep) => (dep === d ? { ...d, i: val.i, r: val.r } : dep)));
  }

  /** Put the stale mark on the page when it has been cut off for a while; take it away when all is in sync again. */
  function assess() {
    const up = [...streams.values()].every((s) => s.heard);
    downSince = up ? 0 : downSince || now();
    const marks = document.documentElement.classList;
    if (!up && now() - downSince >= GRACE) marks.add(MARK);
    else if (up && marks.contains(MARK) && ![...document.querySelectorAll(ROOT)].some(stale)) marks.remove(MARK);
  }

  // -- refetches ----------------------------------------------------------------------------------

  const busy = new Map(); // component id → {el, at, text, want, batch}: its request in flight
  const tries = new Map(); // component id → {el, n, at, want, final, solo}: failed requests in a row
  const holds = new Map(); // component id → until when an action of the user may bring the news itself
  const hosts = new Map(); // helper element of a batch → how its request ended
  let [flushTimer, flushAt] = [0, Infinity];
  let leaving = false;

  function wake(at) {
    if (at >= flushAt) return;
    clearTimeout(flushTimer);
    flushAt = at;
    flushTimer = setTimeout(flush, at - now());
  }

  /** When this stale element may be asked for: now, or later. */
  function readyAt(el, key) {
    const t = tries.get(key);
    const times = [holds.get(key) ?? 0, ...read(el).map((d) => streams.get(d.s)?.later ?? 0)];
    if (t && !t.final) times.push(t.at);
    if (t?.final && t.want === wanted([el])) times.push(Infinity);
    // One request at a time, also not for the inside of what is on its way. An end that never comes is bounded.
    for (const up of isRoot(el) ? around(el) : []) times.push((busy.get(up.id)?.at ?? -Infinity) + 2 * TIMEOUT);
    return Math.max(...times);
  }

  /** Ask for all that is stale and may be asked for now. */
  function flush() {
    flushAt = Infinity;
    if (document.hidden) return; // nobody looks; coming back scans
    const ready = [];
    let next = Infinity;
    for (const el of live()) {
      if (el.hasAttribute('data-solid-text') || !stale(el)) continue;
      const key = isRoot(el) ? el.id : `${el.id} ${read(el).map((d) => [d.h, d.n])}`;
      const at = readyAt(el, key);
      if (at <= now()) ready.push([el, key]);
      else next = Math.min(next, at);
    }
    if (next < Infinity) wake(next);
    tell(ready.filter(([el]) => !isRoot(el)));
    const roots = ready.map(([el]) => el).filter(isRoot);
    // The answer for an outer component brings the inner ones along.
    request(roots.filter((el) => !roots.some((other) => other !== el && other.contains(el))));
  }

  /** People's own fragments: say what changed, once per announced pair. What they do about it is theirs. */
  function tell(listeners) {
    for (const [el, key] of listeners) {
      const want = wanted([el]);
      const names = [...new Set(read(el).flatMap((d) => changes(d) ?? []))];
      // An answer that is always behind brings the element back stale: slow down instead of going round in circles.
      const t = tries.get(key);
      const n = t?.want === want ? t.n + 1 : 0;
      tries.set(key, { el, n, want, at: n ? now() + backOff(n) : 0 });
      write(el, read(el).map((d) => {
        const { i, r } = streams.get(d.s) ?? d;
        return changes(d) ? { ...d, i, r } : d;
      }));
      emit(el, 'solid:changed', { names });
      for (const name of names) if (NAME.test(name)) emit(el, `solid:changed:${name}`, { names });
    }
  }

  /** The signed part of a component's URL, or '' when it must be asked for alone. */
  function token(el) {
    const url = el.getAttribute('hx-get') ?? '';
    const alone = !BATCH || tries.get(el.id)?.solo || el.matches('[hx-vals], [hx-include], [hx-headers]');
    return !alone && url.startsWith(`${BASE}/c/`) && !/[?#&]/.test(url) ? url.slice(BASE.length + 3) : '';
  }

  const take = (el, batch) =>
    busy.set(el.id, { el, batch, at: now(), text: el.getAttribute('data-solid'), want: wanted([el]) });

  /** Ask for as many as there are lanes for; the end of each request scans, and what is left goes next. */
  function request(roots) {
    const alone = [...busy.values()].filter((b) => !b.batch && b.at + 2 * TIMEOUT > now());
    const groups = [];
    for (const el of roots) {
      const part = token(el);
      const last = groups.at(-1);
      if (part && last?.url && last.els.length < 50 && last.url.length + part.length < URL_MAX) {
        last.els.push(el);
        last.url += `&c=${part}`;
      } else groups.push({ els: [el], url: part && `${BASE}/batch?c=${part}` });
    }
    for (const { els, url } of groups.slice(0, Math.max(0, LANES - alone.length - hosts.size))) {
      els.forEach((el) => take(el, els.length > 1));
      if (els.length > 1) batch(url, els.map((el) => el.id));
      else ask(els[0]);
    }
  }

  const wired = new WeakSet(); // what htmx knows

  /** One component alone. The event does not bubble: components nest, and only this one is meant. */
  function ask(el) {
    // Brought in by code that has not told htmx yet, nothing in it would hear the event.
    if (!wired.has(el)) window.htmx.process(el);
    wired.add(el);
    emit(el, 'solid:stale');
  }

  /** Several components by one request; each part of the answer is an out-of-band swap. */
  function batch(url, ids) {
    const host = document.createElement('div'); // a fresh one each time: htmx queues requests of one element
    host.hidden = true;
    for (const name of ['hx-push-url', 'hx-replace-url']) host.setAttribute(name, 'false'); // htmx 2 inherits these
    document.body.append(host);
    hosts.set(host, { ids, status: 0 });
    const done = () => {
      const { status, login } = hosts.get(host);
      hosts.delete(host);
      host.remove();
      ids.forEach((id) => finish(id, status, login));
      scan();
    };
    new Promise((go) => go(window.htmx.ajax('GET', url, { source: host, target: host, swap: 'none' }))).then(done, done);
  }

  /** A refetch has ended, well or not. */
  function finish(id, status, login) {
    const b = busy.get(id);
    const el = b?.el.isConnected ? b.el : document.getElementById(id);
    busy.delete(id);
    if (!b || !el) return;
    if (!b.aborted && !away && (status === 0 || status >= 400)) {
      const go = emit(el, 'solid:failed', { status, login }, true) && login && !leaving;
      leaving ||= go;
      if (go) location.assign(login);
    }
    const moved = b.aborted || el.getAttribute('data-solid') !== b.text;
    if (moved || !stale(el)) return void tries.delete(id); // still stale: the scan that follows asks again, at once
    const n = (tries.get(id)?.n ?? 0) + 1;
    // A batch that left this one out, or that one of its parts broke, would do so again.
    const solo = tries.get(id)?.solo || (b.batch && status > 0 && status <= 500);
    tries.set(id, { el, n, solo, want: b.want, final: FINAL.includes(status), at: now() + backOff(n - 1) });
  }

  function abort(b) {
    if (b.batch || b.aborted) return; // the other parts of a batch are still good
    b.aborted = true;
    // htmx 4 listens on the element, and outer components must not hear it; htmx 2 listens on body.
    if (four()) emit(b.el, 'htmx:abort');
    else emit(document.body, 'htmx:abort', { elt: b.el });
  }

  // -- the fence: an answer never takes the page back ---------------------------------------------

  const older = (fresh, shown) => {
    const pairs = read(shown);
    // What shows that an actor was destroyed is not behind, although its pair is the lowest.
    const deps = read(fresh).filter((d) => !isOver(d) || d.i !== NEVER);
    return deps.some((d) => pairs.some((p) => p.s === d.s && cmp(d.i, d.r, p.i, p.r) < 0));
  };

  /** May this answer not be swapped in? `own` is the id of a component whose refetch it is. */
  function refused(target, fragment, own) {
    if (!around(target).length) return false; // a whole page is repaired, not refused
    const roots = [...fragment.querySelectorAll(ROOT)];
    if (own && !roots.some((root) => root.id === own)) return true; // a login page, an error page
    const reject = roots.some((root) => {
      const shown = document.getElementById(root.id);
      return shown && target.contains(shown) && older(root, shown);
    });
    if (reject) emit(target.closest(ROOT), 'solid:rejected', {}, true);
    return reject;
  }

  // -- htmx: the same four moments under two sets of names ----------------------------------------

  const four = () => typeof window.htmx?.registerExtension === 'function';
  const on = (name, react) => document.addEventListener(name, react, true);
  const ours = (el) => isRoot(el) || hosts.has(el);

  function begins(el, target) {
    // Also when the page's own trigger asked, as in hx-trigger="solid:stale, every 60s".
    if (isRoot(el) && !busy.has(el.id)) take(el, false);
    // An action of the user: its answer most likely carries what the socket is about to announce.
    if (!ours(el)) for (const root of around(target)) holds.set(root.id, now() + 1000);
  }

  function ends(el, target, status, header) {
    const to = (status === 401 && header('Solid-Login')) || '';
    const url = to && URL.canParse(to, location.href) && new URL(to, location.href);
    const login = url && url.origin === location.origin ? url.href : undefined; // nobody is sent to another site
    if (hosts.has(el)) Object.assign(hosts.get(el), { status, login });
    else if (isRoot(el)) finish(el.id, status, login);
    else for (const root of around(target)) holds.delete(root.id);
    scan();
  }

  // htmx 4
  on('htmx:config:request', ({ detail: { ctx } }) => {
    if (!ours(ctx.sourceElement)) return;
    // A transition would put time between the fence and the insertion.
    Object.assign(ctx, { select: null, selectOOB: null, transition: false });
    ctx.request.timeout ||= TIMEOUT;
  });
  on('htmx:before:request', ({ detail: { ctx } }) => begins(ctx.sourceElement, ctx.target));
  on('htmx:finally:request', ({ detail: { ctx } }) => {
    const answer = ctx.response;
    ends(ctx.sourceElement, ctx.target, answer?.status ?? 0, (name) => answer.headers.get(name));
  });
  on('htmx:before:swap', (event) => {
    const { ctx, tasks } = event.detail;
    const el = ctx.sourceElement;
    const broken = ours(el) && ctx.response?.status >= 400; // htmx 4 swaps error pages
    const left = tasks.filter((task) => {
      const own = task.type === 'main' && isRoot(el) && task.target === el ? el.id : '';
      return !broken && !refused(task.target, task.fragment, own);
    });
    if (left.length < tasks.length && !left.length) event.preventDefault();
    tasks.splice(0, tasks.length, ...left);
  });

  // htmx 2
  on('htmx:configRequest', ({ detail }) => ours(detail.elt) && (detail.timeout ||= TIMEOUT));
  on('htmx:beforeRequest', ({ detail }) => begins(detail.requestConfig.elt, detail.target));
  on('htmx:afterRequest', ({ detail: { xhr, target, requestConfig } }) =>
    ends(requestConfig.elt, target, xhr.status, (name) => xhr.getResponseHeader(name)));
  on('htmx:beforeSwap', ({ detail }) => {
    const el = detail.requestConfig.elt;
    if (ours(el)) Object.assign(detail, { ignoreTitle: true, selectOverride: 'unset' });
    if (!detail.shouldSwap || !around(detail.target).length) return;
    // In a template a row of a table survives the parser, too.
    const page = new DOMParser().parseFromString(`<template>${detail.serverResponse}</template>`, 'text/html');
    const own = isRoot(el) && detail.target === el ? el.id : '';
    detail.shouldSwap = !refused(detail.target, page.querySelector('template').content, own);
  });
  const part = ({ detail }) => (detail.shouldSwap &&= !refused(detail.target, detail.fragment, ''));
  on('htmx:beforeTransition', (event) => ours(event.detail.requestConfig?.elt) && event.preventDefault());
  for (const name of ['htmx:after:init', 'htmx:afterProcessNode']) on(name, ({ target }) => wired.add(target));
  on('htmx:oobBeforeSwap', part);
  on('htmx:partialBeforeSwap', part);

  // What the user did to a field or a `<details>` stays, unless the server changed its own mind about it. htmx 4 does
  // so for fields; it has hooks for the rest, and idiomorph has the same two for htmx 2.

  const OPENABLE = `${ROOT} details, ${ROOT} dialog`;
  const DEFAULTS = ['type', 'defaultValue', 'defaultChecked', 'defaultSelected'];
  const served = new WeakMap(); // details and dialogs → whether the server had them open
  const kept = new WeakMap(); // elements → attributes that the morph under way leaves alone

  function weigh(shown, fresh) {
    if (!(shown instanceof Element)) return;
    let names = [];
    if (served.has(shown)) {
      if (served.get(shown) === fresh.open) names = ['open'];
      served.set(shown, fresh.open);
    } else if (!four() && shown.matches('input, textarea, option') && DEFAULTS.every((name) => shown[name] === fresh[name]))
      names = ['value', 'checked', 'selected'];
    kept.set(shown, names);
  }

  const isKept = (el, name) => kept.get(el)?.includes(name) ?? false;

  function outerMorph(target, fragment) {
    const root = fragment.querySelector(`#${CSS.escape(target.id)}`) ?? fragment.firstElementChild;
    if (!window.Idiomorph) target.replaceWith(root);
    if (!window.Idiomorph) return [root];
    window.Idiomorph.morph(target, root, {
      morphStyle: 'outerHTML',
      ignoreActiveValue: true,
      callbacks: {
        beforeNodeMorphed(shown, fresh) {
          weigh(shown, fresh);
          return !(shown instanceof Element && shown.matches('[hx-morph-skip]'));
        },
        beforeAttributeUpdated: (name, el) => !isKept(el, name),
      },
    });
    return [target.isConnected ? target : document.getElementById(root.id)];
  }

  const htmx = window.htmx;
  if (!htmx) console.error('solid: there is no htmx, so only scalars are live; load it before this script');
  if (htmx?.version === '4.0.0') console.warn('solid: htmx 4.0.0 lets old answers win, take 4.0.1 or later');
  if (four()) {
    const known = htmx.registerExtension('solid', {
      htmx_before_morph_node: (_el, { oldNode, newNode }) => weigh(oldNode, newNode),
      htmx_before_morph_attr: (el, { attrName }) => !isKept(el, attrName),
    });
    if (known === false) console.warn('solid: name it in htmx.config.extensions, or refetches close what is open');
  } else {
    htmx?.defineExtension('solid', {
      isInlineSwap: (style) => style === 'outerMorph',
      handleSwap: (style, target, fragment) => style === 'outerMorph' && outerMorph(target, fragment),
    });
  }

  // -- the socket, and polling where there is none ------------------------------------------------

  let socket = null;
  let opened = 0; // since when it is open
  let heard = []; // when the last sign of life came, by the steady clock and by that of the wall
  let greeted = false; // a frame came over this socket
  let [attempt, misses] = [0, 0]; // exponent of the back-off; sockets in a row over which nothing came
  let beat = 25; // seconds between two heart-beats
  let [pollAt, pollMisses] = [0, 0];
  let [retry, idle, ticker] = []; // timers
  let away = false; // the page is left, perhaps for the back-forward cache
  let stopped = false; // the server said never again
  let downSince = 0;

  /** Have a connection when something is live, and none when nothing is. */
  function link() {
    if (!streams.size) {
      if (socket) idle ||= setTimeout(() => socket && !streams.size && lose(1000), IDLE);
      ticker = clearInterval(ticker);
      return;
    }
    idle = clearTimeout(idle);
    ticker ||= setInterval(tick, 1000);
    if (!socket && !retry) connect();
    const fresh = [...streams.values()].filter((s) => !s.sent);
    if (fresh.length && !opened) pollAt = Math.min(pollAt, now());
    // The server takes 64 KiB at a time.
    while (opened && fresh.length) socket.send(JSON.stringify({ t: 'sub', s: fresh.splice(0, 30).map(subscription) }));
  }

  function subscription(s) {
    s.sent = true;
    return s.r === Infinity ? { k: s.h, i: NEVER, r: 0 } : { k: s.h, i: s.i, r: s.r };
  }

  const sign = () => (heard = [now(), Date.now()]);
  // The steady clock may stand still while the computer sleeps, and the other may be set.
  const silence = () => Math.max(now() - heard[0], Date.now() - heard[1]);

  function connect() {
    retry = clearTimeout(retry);
    if (socket || away || stopped || !SOCKET || !streams.size) return;
    const url = new URL(`${BASE}/ws`, location.href);
    url.protocol = url.protocol.replace('http', 'ws');
    socket = new WebSocket(url);
    sign();
    greeted = false;
    socket.onopen = () => {
      opened = now();
      sign();
      forget();
      emit(document, 'solid:open');
      link();
    };
    socket.onmessage = ({ data }) => {
      sign();
      greeted = true;
      misses = 0;
      receive(JSON.parse(data));
    };
    socket.onclose = ({ code }) => lose(code);
  }

  /** Nothing is known to be in sync any more, and all must be asked for again. */
  const forget = () => streams.forEach((s) => Object.assign(s, { sent: false, heard: false }));

  /** The socket has ended, or is given up without waiting for its end: a dead link closes nothing. */
  function lose(code) {
    const was = opened;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
    socket = null;
    opened = 0;
    if (!greeted) misses += 1;
    if (was) {
      if (now() - was > 10000) attempt = 0;
      forget();
      emit(document, 'solid:close', { code });
    }
    stopped ||= code >= 4400 && code < 4500;
    if (streams.size && !away && !stopped) {
      // 1012, 1013: a restart sends everybody back at once, so they spread.
      const first = code === 1012 || code === 1013 ? 4000 : 500;
      retry = setTimeout(connect, Math.random() * Math.min(30000, first * 2 ** attempt++));
    }
    tick();
  }

  function tick() {
    if (socket && silence() > (opened ? 2500 * beat : TIMEOUT)) lose(0);
    const blocked = !SOCKET || misses >= 3;
    if (blocked && !opened && !stopped && !away && !document.hidden && streams.size && now() >= pollAt) poll();
    // What is remembered of failures goes with the elements; one that is soon replaced keeps its back-off.
    for (const [key, t] of tries) if (!t.el.isConnected && t.at + 60000 < now()) tries.delete(key);
    for (const [id, until] of holds) if (until < now()) holds.delete(id);
    assess();
  }

  async function poll() {
    pollAt = Infinity;
    const all = [...streams.values()];
    try {
      while (all.length) {
        const part = [];
        let url;
        do {
          part.push(subscription(all.shift()));
          url = `${BASE}/sync?s=${encodeURIComponent(JSON.stringify(part))}`;
        } while (all.length && url.length * (1 + 1 / part.length) < URL_MAX);
        const answer = await fetch(url, { cache: 'no-store', signal: AbortSignal.timeout(TIMEOUT) });
        if (!answer.ok) throw new Error(`status ${answer.status}`);
        receive(await answer.json());
      }
      pollMisses = 0;
    } catch {
      pollMisses += 1;
      if (!opened) forget();
    }
    pollAt = now() + Math.min(Math.max(POLL, 30000), POLL * 2 ** pollMisses);
  }

  // -- begin --------------------------------------------------------------------------------------

  /** The network or the user has come back: what waits for its turn goes now. */
  function hurry() {
    if (document.hidden || away) return;
    connect();
    scan();
    tick();
  }

  document.addEventListener('visibilitychange', hurry);
  window.addEventListener('online', hurry);
  window.addEventListener('pagehide', () => {
    away = true;
    if (socket) lose(1001);
  });
  window.addEventListener('pageshow', () => {
    away = leaving = false;
    downSince = 0;
    tries.clear(); // back from a login, say: what was refused may be granted now
    hurry();
  });
  // The answer to an action says what it changed: the rest of the page follows, even where there is no socket.
  document.addEventListener('solid:turn', ({ detail }) => receive((detail.m ?? []).map((m) => ({ ...m, t: 'inv' }))));
  new MutationObserver(scan).observe(document, { childList: true, subtree: true, attributeFilter: ['data-solid'] });
  scan();
})();
