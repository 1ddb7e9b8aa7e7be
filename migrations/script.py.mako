"""${message}.

Every step skips what is there already: MySQL and MariaDB commit each of them on its own, so that after a crash
the whole migration runs again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def table(short: str) -> str:
    return f"{context.config.attributes['solid_objects_prefix']}{short}"


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    ${downgrades if downgrades else "pass"}
