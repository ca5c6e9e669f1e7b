"""Uses the client that openapi-python-client generates: `use.py URL INGEST-KEY ADMIN-KEY`, one line for each answer."""

import sys
from io import BytesIO

from arena_client import AuthenticatedClient, Client
from arena_client.api.imports import post_import
from arena_client.api.leaderboard import get_leaderboard
from arena_client.api.policy import get_policy, post_preview
from arena_client.api.votes import post_vote
from arena_client.models.import_ import Import
from arena_client.models.leaderboard import Leaderboard
from arena_client.models.policy_preview import PolicyPreview
from arena_client.models.policy_settings import PolicySettings
from arena_client.models.policy_version import PolicyVersion
from arena_client.models.problem import Problem
from arena_client.models.recorded_vote_answer import RecordedVoteAnswer
from arena_client.models.vote import Vote
from arena_client.models.vote_winner import VoteWinner
from arena_client.types import File

FILE = b"annotator,model_a,model_b,winner\nworker-58,GPT 4,Claude v1,model_a\n"


def main(url: str, ingest_key: str, admin_key: str) -> None:
    """Post a vote, read the leaderboard and the policy, try a policy out, import a file."""
    arena = AuthenticatedClient(base_url=url, token=ingest_key)
    admin = AuthenticatedClient(base_url=url, token=admin_key)
    vote = Vote(model_a="GPT 4", model_b="Claude v1", winner=VoteWinner.MODEL_A, annotator="worker-58", battle_id="b17")
    recorded = post_vote.sync(client=arena, body=vote)
    assert isinstance(recorded, RecordedVoteAnswer), recorded
    print("vote", recorded.status.value)
    board = get_leaderboard.sync(client=Client(base_url=url), limit=3)
    assert isinstance(board, Leaderboard), board
    print("leaderboard", *(row.rank for row in board.models))
    policy = get_policy.sync(client=admin)
    assert isinstance(policy, PolicyVersion), policy
    print("policy", policy.settings.min_votes)
    policy.settings.min_votes = 100
    preview = post_preview.sync(client=admin, body=PolicySettings(settings=policy.settings))
    assert isinstance(preview, PolicyPreview), preview
    print("preview", len(preview.models) > 0)
    imported = post_import.sync(client=arena, body=File(payload=BytesIO(FILE)), filename="votes.csv")
    assert isinstance(imported, Import), imported
    print("import", imported.state.value)
    refused = get_policy.sync(client=AuthenticatedClient(base_url=url, token="stale"))  # noqa: S106  no secret
    assert isinstance(refused, Problem), refused
    print("refused", refused.status)


if __name__ == "__main__":
    main(*sys.argv[1:4])
