// Agents that connect to their controllers (`agent_functions.*`), and controllers that ask over these connections.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { type TestContext, test } from "node:test";
import { startAgentProcess } from "#agent/process.ts";
import { seededChance } from "#base/chance.ts";
import { Fault } from "#base/fault.ts";
import type { Call } from "#base/handler.ts";
import { Scope } from "#base/scope.ts";
import { Agents } from "#fleet/calls/agents.ts";
import { Connections } from "#fleet/calls/connections.ts";
import { realClock } from "#runtime/life/clock.ts";
import { memoryStore } from "#store/memory.ts";
import { decode, encode } from "#wire/protobuf/messages.ts";
import { grpcClient } from "../../kit/clients/grpc.ts";
import { processOn, variables } from "../../kit/process.ts";
import { processContext } from "../../kit/process-context.ts";
import { authority, temporaryFolder } from "../../kit/servers/tls.ts";
import { configOf } from "../../kit/sluice/config.ts";
import { memoryLog } from "../../kit/sluice/log.ts";
import { until } from "../../kit/until.ts";
import { fakeProxy } from "../../prometheus/kit.ts";

type Env = Readonly<Record<string, string>>;

/** The port of a controller that serves nothing but connections of agents. */
async function controllerOn(t: TestContext, env: Env = {}) {
  const connections = new Connections();
  const parts = [{ routes: [], services: [connections.service] }];
  const { address, scope } = await processOn(t, "controller", {
    env,
    parts,
    context: { clock: realClock() },
  });
  const members = { list: [], onChange: () => () => undefined };
  const questions = { ask: () => assert.fail("through the store") };
  const log = memoryLog("debug");
  const agents = new Agents({ members, questions, connections, clock: realClock(), log });
  return { address, connections, agents, scope, asked: log.lines };
}

async function agentOn(t: TestContext, env: Env, seed = 1) {
  const scope = new Scope();
  t.after(() => scope.close("cut"));
  const config = configOf(
    "agent",
    variables("agent", { AGENT_FUNCTIONS_CLIENT_GRPC_BACKOFF_BASE_DELAY: "0.01s", ...env }),
  );
  const log = memoryLog("debug");
  const store = memoryStore();
  await startAgentProcess({
    config,
    store,
    context: processContext(scope),
    chance: seededChance(seed),
    log: { ...log, close: async () => undefined },
  });
  return { scope, lines: log.lines, store };
}

const ASKED = {
  name: "aperture.cmd.v1.ListFlowControlPointsRequest",
  message: Buffer.alloc(0),
} as const;

test("an agent connects to every endpoint, is asked there and not through the store, and comes back", async (t) => {
  const controllers = [await controllerOn(t), await controllerOn(t)];
  const { store, scope, lines } = await agentOn(t, {
    AGENT_FUNCTIONS_ENDPOINTS: JSON.stringify(controllers.map(({ address }) => address)),
    AGENT_FUNCTIONS_CLIENT_GRPC_INSECURE: "true",
    AGENT_INFO_AGENT_GROUP: "shop",
  });
  for (const { agents, asked } of controllers) {
    await until("the agent is connected", () => agents.list.length === 1);
    const [member] = agents.list;
    assert.ok(member);
    assert.equal(member.group, "shop");
    assert.equal(agents.reachedBy(member), "connection");
    const reply = decode(
      "aperture.cmd.v1.ListFlowControlPointsAgentResponse",
      await agents.ask(member, ASKED),
    );
    assert.equal(reply.agentGroup, "shop");
    const fault = await agents.ask(member, { ...ASKED, name: "test.Unknown" }).then(
      () => assert.fail("answered"),
      (thrown: unknown) => Fault.from(thrown),
    );
    assert.equal(fault.code, "UNIMPLEMENTED");
    const told = asked.map(({ level, message, fields: { ms, error, ...fields } }) => {
      assert.deepEqual([level, message, typeof ms], ["debug", "asked an agent", "number"]);
      return { ...fields, bytes: typeof fields["bytes"], failed: error === fault };
    });
    const of = { group: "shop", address: member.address, way: "connection" };
    assert.deepEqual(told, [
      { ...of, request: ASKED.name, bytes: "number", failed: false },
      { ...of, request: "test.Unknown", bytes: "undefined", failed: true },
    ]);
  }
  const answered = lines.filter(({ message }) => message === "answered a controller");
  assert.deepEqual(
    answered.map(({ level, fields }) => [level, fields["request"], "error" in fields]),
    [false, true, false, true].map((failed) => [
      "debug",
      failed ? "test.Unknown" : ASKED.name,
      failed,
    ]),
  );
  // A request in the store stays where it is.
  const [member] = controllers[0]?.agents.list ?? [];
  const key = `/rpc/request/${member?.id}/c1`;
  await store.commit([{ kind: "put", key, value: Buffer.alloc(0) }]);
  await controllers[0]?.agents.ask(member ?? assert.fail(), ASKED);
  assert.deepEqual((await store.list("/rpc/response/")).entries, []);
  await scope.close("drain");
  await until("it has left", () => controllers.every(({ agents }) => agents.list.length === 0));
  assert.equal(
    lines.filter(({ message }) => /connected to the controller/.test(message)).length,
    2,
  );
});

test("an agent whose controller restarts connects again", async (t) => {
  const first = await controllerOn(t);
  const { lines } = await agentOn(t, {
    AGENT_FUNCTIONS_ENDPOINTS: JSON.stringify([`http://${first.address}`]),
  });
  await until("the agent is connected", () => first.agents.list.length === 1);
  await first.scope.close("cut");
  await until("the end was seen", () => first.agents.list.length === 0);
  await until("it is logged", () => lines.some(({ message }) => /no connection to/.test(message)));
  const second = await controllerOn(t, { SERVER_LISTENER_ADDR: first.address });
  await until("the agent is connected again", () => second.agents.list.length === 1);
});

/** The stream of an agent with this id, as its connection serves it, until `end`. */
function stream(connections: Connections, id: string) {
  const messages = new PassThrough({ objectMode: true });
  const sent: Uint8Array[] = [];
  const { methods } = connections.service;
  const method = methods["Serve"];
  assert.ok(method?.kind === "stream");
  const send = async (bytes: Uint8Array) => void sent.push(bytes);
  const served = method.handle({ messages, send }, {} as Call);
  const introduction = {
    agentGroup: "g",
    peer: { id, address: "h:1", hostname: "h", services: {} },
  };
  messages.write(encode("sluice.fleet.v1.FromAgent", { introduction }));
  const answer = (text: string) => {
    const { id: name } = decode("sluice.fleet.v1.ToAgent", sent.at(-1) ?? assert.fail());
    const answer = { id: name, reply: Buffer.from(text) };
    messages.write(encode("sluice.fleet.v1.FromAgent", { answer }));
  };
  const end = async () => {
    messages.end();
    await served;
  };
  return { sent, answer, end };
}

test("an agent that connects again keeps its new connection, and what waited on the old one is UNAVAILABLE", async () => {
  const connections = new Connections();
  const { signal } = new AbortController();
  const ask = () => connections.ask("x", ASKED, signal);
  const before = stream(connections, "x");
  await until("the first is introduced", () => before.sent.length === 1);
  const waiting = assert.rejects(ask(), { code: "UNAVAILABLE" });
  assert.equal(before.sent.length, 2, "it was asked");
  const after = stream(connections, "x");
  await waiting;
  await until("the second is introduced", () => after.sent.length === 1);
  await before.end();
  assert.ok(connections.has("x"), "the end of the old connection is not that of the agent");
  const asked = ask();
  after.answer("yes");
  assert.equal(Buffer.from(await asked).toString(), "yes");
  const last = assert.rejects(ask(), { code: "UNAVAILABLE" });
  await after.end();
  await last;
  assert.equal(connections.has("x"), false);
  await assert.rejects(ask(), { code: "UNAVAILABLE" });
});

test("TLS, a client certificate and the token of the controller", async (t) => {
  const own = authority(temporaryFolder(t), "own");
  const server = own.issue("localhost");
  const client = own.issue("agent");
  const token = "correct-horse-battery-staple";
  const { address, agents } = await controllerOn(t, {
    SERVER_TLS_ENABLED: "true",
    SERVER_TLS_CERT_FILE: server.certFile,
    SERVER_TLS_KEY_FILE: server.keyFile,
    SERVER_TLS_CLIENT_CA_FILE: own.certFile,
    SERVER_ADMINISTRATION_TOKEN: token,
  });
  const endpoint = JSON.stringify([address.replace("127.0.0.1", "localhost")]);
  const tls = {
    AGENT_FUNCTIONS_ENDPOINTS: endpoint,
    AGENT_FUNCTIONS_CLIENT_GRPC_TLS_CA_FILE: own.certFile,
    AGENT_FUNCTIONS_CLIENT_GRPC_TLS_CERT_FILE: client.certFile,
    AGENT_FUNCTIONS_CLIENT_GRPC_TLS_KEY_FILE: client.keyFile,
  };
  const refused = await agentOn(t, { ...tls, AGENT_FUNCTIONS_TOKEN: "wrong" }, 1);
  await until("the refusal is logged", () =>
    refused.lines.some(({ message }) => /wrong administration token/.test(message)),
  );
  assert.equal(agents.list.length, 0);
  await agentOn(t, { ...tls, AGENT_FUNCTIONS_TOKEN: token }, 2);
  await until("the agent is connected", () => agents.list.length === 1);
});

test("who does not introduce itself is refused, and answers that nobody waits for are ignored", async (t) => {
  const { address, agents } = await controllerOn(t);
  const client = grpcClient(t, address);
  const path = "/sluice.fleet.v1.AgentFunctions/Serve";
  const bad = client.bidirectional(path);
  const ended = new Promise<number>((resolve) => {
    bad.on("error", (error: Error & { code: number }) => resolve(error.code));
  });
  bad.resume();
  bad.write(
    Buffer.from(
      encode("sluice.fleet.v1.FromAgent", { answer: { id: "1", reply: Buffer.alloc(0) } }),
    ),
  );
  assert.equal(await ended, 3);
  const good = client.bidirectional(path);
  good.on("error", () => undefined);
  const peer = { id: "x", address: "h:1", hostname: "h", services: {} };
  const introduction = { agentGroup: "g", peer };
  good.write(Buffer.from(encode("sluice.fleet.v1.FromAgent", { introduction })));
  await until("it is known", () => agents.list.length === 1);
  good.write(
    Buffer.from(
      encode("sluice.fleet.v1.FromAgent", { answer: { id: "9", reply: Buffer.alloc(0) } }),
    ),
  );
  good.on("data", (bytes: Buffer) => {
    const { id } = decode("sluice.fleet.v1.ToAgent", bytes);
    if (id === "") return;
    const answer = { id, reply: Buffer.from("yes") };
    good.write(Buffer.from(encode("sluice.fleet.v1.FromAgent", { answer })));
  });
  const [member] = agents.list;
  const reply = await agents.ask(member ?? assert.fail(), ASKED);
  assert.equal(Buffer.from(reply).toString(), "yes");
  good.cancel();
  await until("it has left", () => agents.list.length === 0);
});

test("agent_functions.client.grpc: insecure_skip_verify, key_log_file, and use_proxy with client.proxy", async (t) => {
  const folder = temporaryFolder(t);
  const server = authority(folder, "own").issue("localhost");
  const { address, agents } = await controllerOn(t, {
    SERVER_TLS_ENABLED: "true",
    SERVER_TLS_CERT_FILE: server.certFile,
    SERVER_TLS_KEY_FILE: server.keyFile,
  });
  const proxy = await fakeProxy(t);
  const keys = join(folder, "keys");
  const env = {
    AGENT_FUNCTIONS_ENDPOINTS: `[${address}]`,
    AGENT_FUNCTIONS_CLIENT_GRPC_TLS_KEY_LOG_FILE: keys,
    AGENT_FUNCTIONS_CLIENT_GRPC_USE_PROXY: "true",
    CLIENT_PROXY_HTTPS: `http://127.0.0.1:${proxy.port}`,
  };
  const careful = await agentOn(t, env, 1);
  await until("the certificate is refused", () =>
    careful.lines.some(({ message }) => /no connection to the controller/.test(message)),
  );
  assert.equal(agents.list.length, 0);
  await agentOn(t, { ...env, AGENT_FUNCTIONS_CLIENT_GRPC_TLS_INSECURE_SKIP_VERIFY: "true" }, 2);
  await until("the agent is connected", () => agents.list.length === 1);
  assert.match(readFileSync(keys, "utf8"), /TRAFFIC_SECRET/);
  assert.ok(proxy.tunnels.length > 1);
  for (const { to } of proxy.tunnels) assert.equal(to, address);
});
