"""The tags that votes carry."""

from sqlalchemy import Connection, func, select

from app.database.tables import retracted_votes, votes


def most_voted_tags(conn: Connection, limit: int) -> list[str]:
    """Return the tags with the most votes that are not retracted, the most voted first; by name where equal."""
    if limit == 0:
        return []
    tagged = (
        select(func.unnest(votes.c.tags).label("tag"), votes.c.id).where(func.cardinality(votes.c.tags) > 0).subquery()
    )
    retracted = select(retracted_votes.c.vote_id).where(retracted_votes.c.vote_id == tagged.c.id).exists()
    statement = select(tagged.c.tag).where(~retracted).group_by(tagged.c.tag)
    statement = statement.order_by(func.count().desc(), tagged.c.tag.collate("C")).limit(limit)
    return list(conn.execute(statement).scalars())
