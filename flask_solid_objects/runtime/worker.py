"""The worker role: claim the actor that has waited longest, run its messages in order, go on to the next actor."""

from __future__ import annotations

from typing import ClassVar

from flask_solid_objects.errors import ActorDestroyed, CommitUnknown, DatabaseDeadlineExceeded, LostActivation
from flask_solid_objects.runtime.claiming import Claiming
from flask_solid_objects.runtime.core import Core
from flask_solid_objects.runtime.ending import Continued, Ending
from flask_solid_objects.runtime.process import Keeper
from flask_solid_objects.runtime.role import Role
from flask_solid_objects.runtime.turn import TurnRunner
from flask_solid_objects.runtime.turn_ends import Activation, Completed, TurnEnd
from flask_solid_objects.runtime.wakeups import WakeUps
from flask_solid_objects.values import Claim


class Worker(Role):
    """Runs messages that were sent; a further turn of the same actor costs one transaction."""

    kind: ClassVar[str] = "worker"

    def __init__(self, core: Core, wake_ups: WakeUps, keeper: Keeper, claiming: Claiming, ending: Ending) -> None:
        super().__init__(core, wake_ups, keeper)
        self._claiming, self._ending = claiming, ending
        self._turns = TurnRunner(core)
        self._recovered_at: float | None = None

    def run_once(self) -> bool:
        """Drain one actor within the budget of a pass; recover expired leases now and then."""
        claim = self._claiming.claim_next(self.registration.id, self._core.registry.types())
        if claim is not None:
            self._drain(claim)
            return True
        return self._recover()

    def _labels(self) -> dict[str, object]:
        return {"types": sorted(self._core.registry.types())}

    def _recover(self) -> bool:
        """Expired leases of any type, looked for once per idle interval, so that a crash costs no other timer."""
        now = self._core.seams.clock.monotonic()
        if self._recovered_at is not None and now - self._recovered_at < self._core.settings.idle_polling_interval:
            return False
        self._recovered_at = now
        return self._claiming.recover_expired() > 0

    def _drain(self, claim: Claim) -> None:
        """Run messages of one actor until it has none, the budget is spent, or the lease is lost."""
        settings, clock = self._core.settings, self._core.seams.clock
        until, turns = clock.monotonic() + settings.max_activation_duration, 0
        activation: Activation | None = None
        with self._keeper.keep(claim) as kept:
            while True:
                end = self._run(claim, activation)
                activation = end.activation if isinstance(end, Completed) else None
                turns += 1
                spent = turns >= settings.max_messages_per_activation_pass or clock.monotonic() >= until
                ended = self._end(claim, end, go_on=not (spent or self.is_stopping))
                if ended is None or ended.next is None:
                    break
                claim = kept.lease_moved(ended.next)
        if activation is not None:
            self._turns.deactivate(activation, claim)

    def _run(self, claim: Claim, activation: Activation | None) -> TurnEnd:
        try:
            return self._turns.run(claim, activation)
        except BaseException:
            self._ending.hand_back(claim)
            raise

    def _end(self, claim: Claim, end: TurnEnd, *, go_on: bool) -> Continued | None:
        try:
            return self._ending.end(claim, end, go_on=go_on)
        except ActorDestroyed:
            return None
        except (LostActivation, CommitUnknown, DatabaseDeadlineExceeded) as error:
            # Nothing of this turn was written, or its end is unknown: whoever takes the lease over decides.
            self._core.events.announce("activation.lost", claim=claim, error=type(error).__name__)
            return None
