"""Who may do what: the policies that the application registered, and what holds where it registered none.

Acts of server code pass without a policy, unless strict policies are on; acts that a browser can reach are denied
until the application registers one. A policy denies with any false answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

from flask_solid_objects.errors import Unauthorized
from flask_solid_objects.values import Access, Policy

PolicyName: TypeAlias = Literal["message", "query", "destroy", "subscription", "administration", "transmission"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The registered policies by name; the mapping may grow while the application starts."""

    registered: Mapping[str, Policy] = field(default_factory=lambda: MappingProxyType({}))
    strict: bool = False

    def require(self, name: PolicyName, access: Access, *, browser: bool = False) -> None:
        """Ask the policy.

        :param browser: the act can be reached by a browser, so that no policy means no.
        :raises Unauthorized: it was denied; nothing was read or written.
        """
        if not self.allows(name, access, browser=browser):
            subject = access.resource or f"{access.actor_type} {access.actor_id!r} {access.operation or ''}".rstrip()
            remedy = "" if name in self.registered else f"Register a policy with @solid.authorize_{name}."
            raise Unauthorized(access.action, subject, remedy=remedy)

    def is_asked(self, name: PolicyName) -> bool:
        """False when every act of server code passes, so that the question need not be put together."""
        return self.strict or name in self.registered

    def allows(self, name: PolicyName, access: Access, *, browser: bool = False) -> bool:
        policy = self.registered.get(name)
        if policy is None:
            return not (browser or self.strict)
        return bool(policy(access))
