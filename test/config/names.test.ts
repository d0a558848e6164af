import assert from "node:assert/strict";
import { test } from "node:test";
import { nameOf } from "#config/read/variables.ts";
import { configOf } from "../kit/sluice/config.ts";

test("names follow the key path; objects end in an underscore", () => {
  assert.equal(nameOf("agent", "server.listener.addr", "leaf"), "SVC_AGENT_SERVER_LISTENER_ADDR");
  assert.equal(nameOf("agent", "server.grpc_gateway", "object"), "SVC_AGENT_SERVER_GRPC_GATEWAY_");
  assert.equal(nameOf("controller", "log.level", "leaf"), "SVC_CONTROLLER_LOG_LEVEL");
  assert.equal(nameOf("controller", "", "object"), "SVC_CONTROLLER_");
});

test("a name in lower case is ignored, and named", () => {
  const { config, notes } = configOf("agent", {
    svc_agent_log_level: "warn",
    Svc_Agent_Log_Format: "text",
    svc_controller_log_level: "warn",
  });
  assert.equal(config.log.level, "info");
  assert.deepEqual(
    notes.flatMap(({ message }) => (message.includes("is ignored") ? [message] : [])),
    [
      "svc_agent_log_level is ignored: did you mean SVC_AGENT_LOG_LEVEL?",
      "Svc_Agent_Log_Format is ignored: did you mean SVC_AGENT_LOG_FORMAT?",
    ],
  );
});

test("the more specific name wins: key over object over outer object", () => {
  const { config } = configOf("agent", {
    SVC_AGENT_SERVER_HTTP_READ_TIMEOUT: "1s",
    SVC_AGENT_SERVER_HTTP_: '{"read_timeout":"2s","write_timeout":"2s"}',
    SVC_AGENT_SERVER_: '{"http":{"read_timeout":"3s","write_timeout":"3s","idle_timeout":"3s"}}',
    SVC_AGENT_: '{"log":{"level":"warn"}}',
  });
  assert.equal(config.server.http.read_timeout, 1_000);
  assert.equal(config.server.http.write_timeout, 2_000);
  assert.equal(config.server.http.idle_timeout, 3_000);
  assert.equal(config.server.http.read_header_timeout, 10_000);
  assert.equal(config.log.level, "warn");
});

for (const text of [
  "{read_timeout: 2s}",
  "",
  "[]",
  "{",
  '{"read_timeout":"2s","read_timeout":"3s"}',
]) {
  test(`an object's name takes well-formed JSON only: ${text}`, () => {
    assert.throws(
      () => configOf("agent", { SVC_AGENT_SERVER_HTTP_: text }),
      /SVC_AGENT_SERVER_HTTP_/,
    );
  });
}

test("JSON may span several lines and contain tabs", () => {
  const text = '{\n\t"read_timeout":\t"2s"\n}';
  assert.equal(
    configOf("agent", { SVC_AGENT_SERVER_HTTP_: text }).config.server.http.read_timeout,
    2_000,
  );
});

test("lists: commas, with or without brackets, or JSON", () => {
  const endpoints = (text: string) =>
    configOf("agent", { SVC_AGENT_ETCD_ENDPOINTS: text }).config.etcd.endpoints;
  assert.deepEqual(endpoints("[]"), []);
  assert.deepEqual(endpoints("[a:1,http://b:2]"), ["a:1", "http://b:2"]);
  assert.deepEqual(endpoints("[ a:1 , b:2 ]"), ["a:1", "b:2"]);
  assert.deepEqual(endpoints('["a:1", "b:2"]'), ["a:1", "b:2"]);
  assert.deepEqual(endpoints("[http://[::1]:2379]"), ["http://[::1]:2379"]);
  assert.deepEqual(endpoints("http://127.0.0.1:2379"), ["http://127.0.0.1:2379"]);
  assert.deepEqual(endpoints(" a:1 , b:2"), ["a:1", "b:2"]);
  assert.deepEqual(endpoints("[::1]:2379,b:2"), ["[::1]:2379", "b:2"]);
  assert.deepEqual(endpoints("b:2,http://[::1]"), ["b:2", "http://[::1]"]);
  for (const text of ["", " ", "[a:1", "a:1]", "a:1,b:2]", '["a:1",b:2]', "[a:1,,b:2]", "a:1,"]) {
    assert.throws(() => endpoints(text), /written a,b or \[a,b\] or as JSON/, text);
  }
  const { config } = configOf("agent", { SVC_AGENT_SERVER_HTTP_LATENCY_BUCKETS_MS: "[1,2.5,1e2]" });
  assert.deepEqual(config.server.http.latency_buckets_ms, [1, 2.5, 100]);
  const plain = configOf("agent", { SVC_AGENT_SERVER_HTTP_LATENCY_BUCKETS_MS: "1, 2.5" }).config;
  assert.deepEqual(plain.server.http.latency_buckets_ms, [1, 2.5]);
});

test("flags take exactly the documented spellings", () => {
  const pedantic = (text: string) =>
    configOf("agent", { SVC_AGENT_METRICS_PEDANTIC: text }).config.metrics.pedantic;
  for (const text of ["1", "t", "T", "TRUE", "true", "True"]) assert.equal(pedantic(text), true);
  for (const text of ["0", "f", "F", "FALSE", "false", "False"])
    assert.equal(pedantic(text), false);
  for (const text of ["", "yes", "tRue", " true"])
    assert.throws(() => pedantic(text), /true or false/);
});

test("numbers are strict", () => {
  const limit = (text: string) =>
    configOf("agent", { SVC_AGENT_WATCHDOG_MEMORY_HEAP_LIMIT: text }).config.watchdog.memory.heap
      .limit;
  assert.equal(limit("9007199254740991"), Number.MAX_SAFE_INTEGER);
  for (const text of ["", " 1", "1 ", "0x10", "1e3", "1.0", "9007199254740993", "-1", "1_000"]) {
    assert.throws(() => limit(text), /a whole number/, text);
  }
  const reason =
    /at most 9007199254740991 \(2\^53 - 1\) in size, because larger ones would lose digits/;
  for (const text of ["9007199254740992", "9007199254740993", "9".repeat(40), "9".repeat(400)]) {
    assert.throws(() => limit(text), reason, text);
    assert.throws(() => limit(text), new RegExp(`got "${text.slice(0, 30)}`), text);
  }
  // Below the least value, that is the reason.
  for (const text of ["-1", "-9007199254740993"]) {
    assert.throws(
      () => limit(text),
      (thrown) => !reason.test(String(thrown)),
      text,
    );
  }
});

test("names that Kubernetes sets are ignored with one note, host facts without a note", () => {
  const { notes } = configOf("agent", {
    SVC_AGENT_SERVICE_HOST: "10.0.0.1",
    SVC_AGENT_SERVICE_PORT: "8080",
    SVC_AGENT_SERVICE_PORT_HTTP: "8080",
    SVC_AGENT_PORT: "tcp://10.0.0.1:8080",
    SVC_AGENT_PORT_8080_TCP: "tcp://10.0.0.1:8080",
    SVC_AGENT_PORT_8080_TCP_ADDR: "10.0.0.1",
    SVC_AGENT_PEERS_SERVICE_HOST: "10.0.0.2",
    SVC_AGENT_POD_NAME: "a",
    SVC_AGENT_POD_NAMESPACE: "b",
    SVC_AGENT_NODE_NAME: "c",
    SVC_AGENT_POD_IP: "10.0.0.3",
  });
  const said = notes.filter(({ message }) => message.includes("Kubernetes"));
  assert.equal(said.length, 1);
  assert.match(
    said[0]?.message ?? "",
    /: SVC_AGENT_PEERS_SERVICE_HOST, .*, SVC_AGENT_SERVICE_PORT_HTTP$/,
  );
  assert.doesNotMatch(JSON.stringify(notes), /POD|NODE/);
});

test("a misspelt key that ends like a Kubernetes name is still a fault", () => {
  assert.throws(
    () => configOf("agent", { SVC_AGENT_OTEL_PORTS_DEBG_PORT: "8888" }),
    /did you mean SVC_AGENT_OTEL_PORTS_DEBUG_PORT/,
  );
});

test("only names that are near are suggested, and never the bare prefix", () => {
  for (const name of ["SVC_AGENT_BAR", "SVC_AGENT_NOPE"]) {
    assert.throws(
      () => configOf("agent", { [name]: "1" }),
      /wanted a name from the reference page/,
    );
  }
  assert.throws(
    () => configOf("agent", { SVC_AGENT_LOGS_: "{}" }),
    /did you mean SVC_AGENT_LOG_, which takes an object as JSON\?/,
  );
});

test("names without the prefix of the process are ignored", () => {
  configOf("agent", { SVC_CONTROLLER_NOPE: "1", SVC_AGENTS: "1", PATH: "/bin" });
  assert.throws(() => configOf("controller", { SVC_CONTROLLER_NOPE: "1" }), /SVC_CONTROLLER_NOPE/);
});
