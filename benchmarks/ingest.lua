-- Requests for wrk: every vote and every battle is new. Arguments: a word that tells this run's battles apart, the API key, votes a request,
-- milliseconds that a connection waits after each answer.
local threads = 0

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

function init(args)
  run, sent = args[1] .. "-" .. number, 0
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
  wrk.headers["Authorization"] = "Bearer " .. args[2]
  math.randomseed(number + 1)
  local size, wait = tonumber(args[3]), tonumber(args[4])
  if wait > 0 then delay = function() return wait end end
  if size > 0 then
    local votes = {}
    for i = 1, size do votes[i] = vote("@-" .. i) end
    batch = '{"votes":[' .. table.concat(votes, ",") .. "]}"
  end
end

function battle()
  return string.format('{"annotator":"worker-%d"}', math.random(1, 500))
end

function vote(battle)
  local a = math.random(1, 20)
  local b = (a + math.random(0, 18)) % 20 + 1
  return string.format(
    '{"model_a":"model-%d","model_b":"model-%d","winner":"model_a","annotator":"worker-%d","battle_id":"%s"}',
    a, b, math.random(1, 500), battle)
end

function request()
  if wrk.path:match("/battles$") then return wrk.format(nil, nil, nil, battle()) end
  sent = sent + 1
  local name = run .. "-" .. sent
  return wrk.format(nil, nil, nil, batch and string.gsub(batch, "@", name) or vote(name))
end
