"""The database of what the shop sells."""

from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

engine = create_async_engine("sqlite+aiosqlite:///parts.db")
sessions = async_sessionmaker(engine)
