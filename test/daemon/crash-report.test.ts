// A crash of a process, as the server that `crashreport.dsn` names receives it.

import assert from "node:assert/strict";
import { createServer, type IncomingMessage } from "node:http";
import { type TestContext, test } from "node:test";
import { Fault } from "#base/fault.ts";
import { processOn } from "../kit/process.ts";

interface Received {
  readonly url: string | undefined;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** A server that takes every request, or answers with `status`. */
async function destination(t: TestContext, status = 200) {
  const received: Received[] = [];
  const server = createServer((request, reply) => {
    let body = "";
    request.setEncoding("utf8").on("data", (chunk: string) => {
      body += chunk;
    });
    request.on("end", () => {
      received.push({ url: request.url, headers: request.headers, body });
      reply.writeHead(status, { connection: "close" }).end("{}");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => new Promise<void>((resolve) => void server.close(() => resolve())));
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  return { received, host: `127.0.0.1:${address.port}` };
}

const TOKEN = "correct-horse-battery-staple";

async function crashing(
  t: TestContext,
  env: Readonly<Record<string, string>>,
  name: "agent" | "controller" = "agent",
) {
  const listeners: ((message: string, cause: unknown) => Promise<void>)[] = [];
  const started = await processOn(t, name, {
    env: { SERVER_ADMINISTRATION_TOKEN: TOKEN, ...env },
    context: { onCrash: (listener) => void listeners.push(listener) },
  });
  const crash = async (cause: unknown, message = "uncaught exception") => {
    for (const listener of listeners) await listener(message, cause);
  };
  return { ...started, crash, listeners };
}

/** The three lines of an envelope. */
function linesOf({ body }: Received) {
  const [head = "", item = "", event = "", ...rest] = body.split("\n");
  assert.deepEqual(rest, [""]);
  assert.equal(JSON.parse(item).length, Buffer.byteLength(event));
  return { head: JSON.parse(head), item: JSON.parse(item), event: JSON.parse(event) };
}

for (const name of ["agent", "controller"] as const)
  test(`${name}: a crash is reported as an envelope with the last lines of the log, and without secrets`, async (t) => {
    const { received, host } = await destination(t);
    const dsn = `http://public-key@${host}/prefix/42`;
    const { crash, process } = await crashing(
      t,
      { CRASHREPORT_DSN: dsn, CRASHREPORT_ENVIRONMENT: "staging" },
      name,
    );
    for (let line = 0; line < 30; line++)
      process.log.child("rules").warn({ user: "ann@example.com" }, `line ${line} for 10.1.2.3`);
    process.log.info(
      {},
      "calling https://user:hunter2@metrics/api?key=abc with authorization: Bearer abc.def",
    );
    await crash(new TypeError(`no such thing: ${TOKEN}, password=swordfish, ${dsn}`));
    assert.equal(received.length, 1);
    const [sent] = received;
    assert.ok(sent);
    assert.equal(sent.url, "/prefix/api/42/envelope/");
    assert.equal(sent.headers["content-type"], "application/x-sentry-envelope");
    assert.match(
      String(sent.headers["x-sentry-auth"]),
      /^Sentry sentry_version=7, sentry_client=sluice\/\S+, sentry_key=public-key$/,
    );
    const { head, item, event } = linesOf(sent);
    assert.match(head.event_id, /^[0-9a-f]{32}$/);
    assert.equal(item.type, "event");
    assert.equal(event.event_id, head.event_id);
    assert.equal(event.level, "fatal");
    assert.equal(event.platform, "node");
    assert.equal(event.environment, "staging");
    assert.equal(event.logger, `sluice-${name}`);
    assert.match(event.release, /^sluice@\d/);
    const [exception] = event.exception.values;
    assert.equal(exception.type, "TypeError");
    assert.equal(exception.value.startsWith("no such thing: ***, password=***"), true);
    const frames: { filename: string; function: string; lineno: number }[] =
      exception.stacktrace.frames;
    assert.ok(
      frames.some(({ filename, lineno }) => filename === "crash-report.test.ts" && lineno > 0),
    );
    const { values } = event.breadcrumbs;
    assert.equal(values.length, 20);
    assert.deepEqual(
      [values.at(-2).message, values.at(-2).category, values.at(-2).level],
      ["line 29 for ***", "rules", "warning"],
    );
    for (const secret of [
      TOKEN,
      "hunter2",
      "swordfish",
      "abc",
      "ann@",
      "10.1.2.3",
      host,
      "/work",
      "/home",
      "public-key",
    ])
      assert.equal(sent.body.includes(secret), false, secret);
  });

test("crashreport.attach_stack_trace false leaves the stack out", async (t) => {
  const { received, host } = await destination(t);
  const { crash } = await crashing(t, {
    CRASHREPORT_DSN: `http://key@${host}/1`,
    CRASHREPORT_ATTACH_STACK_TRACE: "false",
  });
  await crash(new Error("x"));
  const [exception] = linesOf(received[0] ?? assert.fail()).event.exception.values;
  assert.deepEqual(Object.keys(exception), ["type", "value"]);
});

test("nothing is reported without a dsn, with crashreport.disabled, or outside of the sample", async (t) => {
  const { received, host } = await destination(t);
  const dsn = { CRASHREPORT_DSN: `http://key@${host}/1` };
  for (const env of [{}, { ...dsn, CRASHREPORT_DISABLED: "true" }])
    assert.deepEqual((await crashing(t, env)).listeners, []);
  const { crash, lines } = await crashing(t, { ...dsn, CRASHREPORT_SAMPLE_RATE: "0" });
  await crash(new Error("x"));
  assert.equal(received.length, 0);
  assert.ok(lines.some(({ message }) => /not in the sample/.test(message)));
});

test("crashreport.debug logs what the reporter does; a destination that is away or refuses changes nothing else", async (t) => {
  const refusing = await destination(t, 429);
  for (const [dsn, wanted] of [
    [`http://key@${refusing.host}/1`, /answered with 429/],
    ["http://key@127.0.0.1:1/1", /was not reported: http:\/\/127\.0\.0\.1:1: connection refused/],
  ] as const)
    for (const debug of [true, false]) {
      const env = { CRASHREPORT_DSN: dsn, CRASHREPORT_DEBUG: String(debug) };
      const { crash, lines } = await crashing(t, env);
      await crash(new Error("x"));
      assert.equal(
        lines.some(({ message }) => wanted.test(message)),
        debug,
      );
      assert.equal(
        lines.some(({ message }) => /crashes are reported to/.test(message)),
        debug,
      );
    }
});

test("a report goes through client.proxy", async (t) => {
  const proxy = await destination(t);
  const { crash } = await crashing(t, {
    CRASHREPORT_DSN: "http://key@reports.invalid/1",
    CLIENT_PROXY_HTTP: proxy.host,
  });
  await crash(new Error("x"));
  assert.equal(proxy.received.length, 1);
  assert.equal(proxy.received[0]?.headers.host, "reports.invalid");
});

test("a dsn without key or project ends the start, and is not repeated", async (t) => {
  await assert.rejects(
    crashing(t, { CRASHREPORT_DSN: "https://hunter2.example/" }),
    (thrown) =>
      thrown instanceof Fault &&
      thrown.code === "INVALID_ARGUMENT" &&
      /^crashreport\.dsn: wanted/.test(thrown.message) &&
      !/hunter2/.test(thrown.message),
  );
});
