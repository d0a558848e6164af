import assert from "node:assert/strict";
import { test } from "node:test";
import { parse } from "yaml";
import { printJson, printYaml } from "#config/print.ts";
import { configOf } from "../kit/sluice/config.ts";

const ENV = {
  SVC_AGENT_LOG_LEVEL: "warn",
  SVC_AGENT_ETCD_USERNAME: "ann",
  SVC_AGENT_ETCD_PASSWORD: "hunter2",
  SVC_AGENT_SERVER_HTTP_READ_TIMEOUT: "1m30s",
  SVC_AGENT_SERVER_DRAIN_GRACE: "1500ms",
  SVC_AGENT_LOG_WRITERS: '[{"file":"a"}]',
};

test("the printed tree names the source of every value", () => {
  const text = printYaml(configOf("agent", ENV));
  assert.match(text, /^ {2}level: "warn" # environment SVC_AGENT_LOG_LEVEL$/m);
  assert.match(text, /^ {4}addr: ":8080" # default$/m);
  assert.match(text, /^ {4}read_timeout: "90s" # environment/m);
  assert.match(text, /^ {4}grace: "1500ms" # environment/m);
  assert.match(text, /^ {2}password: "\*\*\*" # environment SVC_AGENT_ETCD_PASSWORD$/m);
  assert.match(text, /^ {2}api_key: "" # default; no effect: /m);
  assert.match(text, /writers: \[\{"compress":false,"file":"a"/);
});

test("the printed tree says which keys have no effect as the process is configured", () => {
  const text = printYaml(configOf("agent", { ...ENV, SVC_AGENT_COUNTERS_ENGINE: "local" }));
  const why = "agents count for each other only with counters.engine: peers";
  assert.match(text, new RegExp(`^ {2}replica_count: 1 # default; no effect: ${why}$`, "m"));
  assert.match(text, /^ {2}dsn: "" # default$/m);
  assert.match(text, /# default; no effect: not built yet: caches$/m);
});

test("the printed tree is YAML that sets the same values", () => {
  const loaded = configOf("agent", ENV);
  const again = configOf("agent", { SVC_AGENT_: JSON.stringify(parse(printYaml(loaded))) });
  const { etcd, ...rest } = loaded.config;
  assert.deepEqual({ ...again.config, etcd }, { ...rest, etcd });
});

test("as JSON, with origins by path", () => {
  const read = JSON.parse(printJson(configOf("controller", { SVC_CONTROLLER_LOG_LEVEL: "debug" })));
  assert.equal(read.process, "controller");
  assert.equal(read.config.log.level, "debug");
  assert.deepEqual(read.origins["log.level"], {
    source: "environment",
    where: "SVC_CONTROLLER_LOG_LEVEL",
  });
  assert.equal(read.origins["server.listener.addr"].source, "default");
  assert.match(read.without_effect["crashreport.environment"], /crashreport\.dsn is empty/);
  assert.equal(read.without_effect["log.level"], undefined);
});
