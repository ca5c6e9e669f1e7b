// Uses the types that openapi-typescript generates: `node use.js URL INGEST-KEY ADMIN-KEY`, one line for each answer.
import createClient from "openapi-fetch";

import type { components, paths } from "./schema.js";

type Json = "application/json" | "application/problem+json";
type Winner = components["schemas"]["Vote"]["winner"];

const [url = "", ingestKey = "", adminKey = ""] = process.argv.slice(2);

function connect(key?: string) {
  return createClient<paths, Json>({ baseUrl: url, headers: key === undefined ? {} : { Authorization: `Bearer ${key}` } });
}

const arena = connect(ingestKey);
const admin = connect(adminKey);

const winner: Winner = "model_a";
const vote = await arena.POST("/api/v1/votes", {
  body: { model_a: "GPT 4", model_b: "Claude v1", winner, annotator: "worker-58", battle_id: "b18" },
});
if (vote.error) throw new Error(vote.error.detail);
console.log("vote", vote.data.status);

const board = await connect().GET("/api/v1/leaderboard", { params: { query: { limit: 3 } } });
if (board.error) throw new Error(board.error.detail);
console.log("leaderboard", ...board.data.models.map((row) => row.rank));

const policy = await admin.GET("/api/v1/policy");
if (policy.error) throw new Error(policy.error.detail);
console.log("policy", policy.data.settings.min_votes);

const settings = { ...policy.data.settings, min_votes: 100 };
const preview = await admin.POST("/api/v1/policy/preview", { body: { settings } });
if (preview.error) throw new Error(preview.error.detail);
console.log("preview", preview.data.models.length > 0);

const imported = await arena.POST("/api/v1/imports", {
  params: { query: { filename: "votes.csv" } },
  headers: { "Content-Type": "application/octet-stream" },
  body: "annotator,model_a,model_b,winner\nworker-58,GPT 4,Claude v1,model_b\n",
  bodySerializer: (body) => body as string,
});
if (imported.error) throw new Error(imported.error.detail);
console.log("import", imported.data.state);

const refused = await connect("stale").GET("/api/v1/policy");
console.log("refused", refused.error?.status);
