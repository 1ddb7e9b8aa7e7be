"""The shop's own table: what was sold. Its rows are written by a commit action, together with the turn that sells."""

from __future__ import annotations

from datetime import datetime

from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import DateTime, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """The tables of the shop."""


db = SQLAlchemy(model_class=Base)


class Order(Base):
    """Seats that somebody has paid."""

    __tablename__ = "shop_orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    event_id: Mapped[str] = mapped_column(String(191), index=True)
    holder: Mapped[str] = mapped_column(String(64), index=True)
    seats: Mapped[str] = mapped_column(String(400))
    cents: Mapped[int]
    receipt: Mapped[str] = mapped_column(String(64), unique=True)
    sold_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
