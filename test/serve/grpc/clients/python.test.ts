// Runs gRPC's Python library against both transports: how its C core understands Sluice's replies and errors.

import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { CODES } from "#base/fault.ts";
import { python } from "../../../kit/clients/grpcio.ts";
import { folderOf } from "../../../kit/folder.ts";
import { interopServices, messages } from "../../../kit/servers/interop-service.ts";
import { authority, temporaryFolder } from "../../../kit/servers/tls.ts";
import { memoryMeter, type Overrides, testPort } from "../../../kit/sluice/port.ts";
import { until } from "../../../kit/until.ts";

const {
  simpleRequest,
  simpleResponse,
  inputRequest,
  inputResponse,
  outputRequest,
  outputResponse,
} = messages;
const SERVICE = "/grpc.testing.TestService";
const UNARY = { path: `${SERVICE}/UnaryCall`, sides: "unary_unary" } as const;
const STREAM = { path: `${SERVICE}/StreamingOutputCall`, sides: "unary_stream" } as const;
/** Asks for the first message at once and the next one in a minute. */
const SLOW = outputRequest.encode({
  responseParameters: [{ size: 1 }, { size: 1, intervalUs: 60_000_000 }],
});
const EVERY_BYTE = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)).toString("base64");
const SPECIAL = "\t\nwhite space\r\nand ☺ and 😈, 100 %\t\n";
const [SERVING, NOT_SERVING] = ["0801", "0802"];

const sized = (size: number) => ({ payload: { body: new Uint8Array(size) } });

async function open(test: TestContext, settings: Overrides) {
  const { meter, handled } = memoryMeter();
  const port = await testPort(test, { settings, meter, services: interopServices() });
  return { port, handled };
}

/** The outcome of a call that its deadline ends. Its handler has ended, too, if a message came before. */
async function pastDeadline(t: TestContext, transport: "own" | "grpc-js", timeout: number) {
  const { port, handled } = await open(t, { grpc: { transport } });
  const { outcomes } = python(t, port.address, {
    late: { ...STREAM, messages: [SLOW], timeout },
  });
  const { late } = await outcomes;
  assert.equal(late.code, CODES.DEADLINE_EXCEEDED.number, late.details);
  if (late.messages.length === 1) {
    await until("the handler ended", () => handled.length === 1);
    // True if the caller's reset or the server's clock comes first is a matter of less than a millisecond.
    assert.match(handled[0]?.code ?? "", /^(CANCELLED|DEADLINE_EXCEEDED)$/);
  }
  return late;
}

for (const transport of ["own", "grpc-js"] as const) {
  test(`calls of all four kinds work, with metadata, statuses and all sizes: ${transport}`, async (t) => {
    const { port } = await open(t, { grpc: { transport } });
    const { outcomes } = python(t, port.address, {
      large: {
        ...UNARY,
        messages: [simpleRequest.encode({ ...sized(271_828), responseSize: 314_159 })],
      },
      gzip: { ...UNARY, gzip: true, messages: [simpleRequest.encode({ responseSize: 70_000 })] },
      metadata: {
        ...UNARY,
        messages: [simpleRequest.encode({ responseSize: 1 })],
        metadata: [
          ["x-grpc-test-echo-initial", "as it was"],
          ["x-grpc-test-echo-trailing-bin", EVERY_BYTE],
        ],
      },
      status: {
        ...UNARY,
        messages: [simpleRequest.encode({ responseStatus: { code: 9, message: SPECIAL } })],
        metadata: [["x-grpc-test-echo-trailing-bin", EVERY_BYTE]],
      },
      refused: { ...UNARY, messages: [simpleRequest.encode(sized(5 * 1024 * 1024))] },
      unknown: { ...UNARY, path: `${SERVICE}/UnimplementedCall`, messages: [new Uint8Array()] },
      sum: {
        path: `${SERVICE}/StreamingInputCall`,
        sides: "stream_unary",
        messages: [27_182, 8, 0, 1_828, 4_000_000].map((size) => inputRequest.encode(sized(size))),
      },
      many: {
        ...STREAM,
        messages: [outputRequest.encode({ responseParameters: [{ size: 1_000_000 }, {}, {}] })],
      },
      talk: {
        path: `${SERVICE}/FullDuplexCall`,
        sides: "stream_stream",
        messages: [3, 70_000].map((size) =>
          outputRequest.encode({ responseParameters: [{ size }] }),
        ),
      },
    });
    const { large, gzip, metadata, status, refused, unknown, sum, many, talk } = await outcomes;
    const sizes = (from: typeof talk, { decode } = outputResponse) =>
      from.messages.map((message) => decode(message).payload?.body?.length ?? 0);
    for (const outcome of [large, gzip, metadata, sum, many, talk]) {
      assert.deepEqual([outcome.code, outcome.details], [0, ""]);
    }
    assert.deepEqual(sizes(large, simpleResponse), [314_159]);
    assert.deepEqual(sizes(gzip, simpleResponse), [70_000]);
    assert.equal(metadata.initial.get("x-grpc-test-echo-initial"), "as it was");
    assert.equal(metadata.trailing.get("x-grpc-test-echo-trailing-bin"), EVERY_BYTE);
    assert.deepEqual([status.code, status.details], [9, SPECIAL]);
    assert.equal(status.trailing.get("x-grpc-test-echo-trailing-bin"), EVERY_BYTE);
    assert.equal(refused.code, CODES.RESOURCE_EXHAUSTED.number, refused.details);
    assert.equal(unknown.code, CODES.UNIMPLEMENTED.number, unknown.details);
    const [summed] = sum.messages.map(inputResponse.decode);
    assert.equal(summed?.aggregatedPayloadSize, 4_029_018);
    assert.deepEqual(sizes(many), [1_000_000, 0, 0]);
    assert.deepEqual(sizes(talk), [3, 70_000]);
  });

  test(`deadlines and cancellation end the handlers: ${transport}`, async (t) => {
    const { port, handled } = await open(t, { grpc: { transport } });
    const { outcomes } = python(t, port.address, {
      takenBack: { ...STREAM, messages: [SLOW], take: 1 },
      silent: {
        path: `${SERVICE}/StreamingInputCall`,
        sides: "unary_stream",
        messages: [new Uint8Array()],
        timeout: 30,
      },
    });
    const { takenBack, silent } = await outcomes;
    assert.equal(takenBack.code, CODES.CANCELLED.number, takenBack.details);
    assert.equal(silent.code, 0, silent.details);
    await until("all handlers ended", () => handled.length === 2);
    assert.deepEqual(handled.map(({ code }) => code).sort(), ["CANCELLED", "OK"]);
    // On a busy machine a deadline may pass before the first message; then a later one is tried.
    for (const timeout of [0.2, 2, 20]) {
      const late = await pastDeadline(t, transport, timeout);
      if (late.messages.length === 1) return;
    }
    assert.fail("no message came before the deadline");
  });

  test(`Health.Watch reports changes: ${transport}`, async (t) => {
    const { port } = await open(t, { grpc: { transport } });
    const watching = python(t, port.address, {
      watch: {
        path: "/grpc.health.v1.Health/Watch",
        sides: "unary_stream",
        messages: [new Uint8Array()],
        take: 3,
      },
    });
    await watching.messages("watch", 1);
    port.health.set("", false);
    await watching.messages("watch", 2);
    port.health.set("", true);
    const { watch } = await watching.outcomes;
    assert.deepEqual(
      watch.messages.map((message) => message.toString("hex")),
      [SERVING, NOT_SERVING, SERVING],
    );
  });

  test(`calls work over TLS and over a Unix socket: ${transport}`, async (t) => {
    const ca = authority(temporaryFolder(t), "ca");
    const { certFile: cert_file, keyFile: key_file } = ca.issue("server");
    const tls = await open(t, {
      grpc: { transport },
      tls: { enabled: true, cert_file, key_file },
    });
    const addr = `unix:${join(folderOf(t), "sluice.sock")}`;
    const unix = await open(t, { grpc: { transport }, listener: { addr } });
    const calls = {
      large: { ...UNARY, messages: [simpleRequest.encode({ responseSize: 1_000_000 })] },
    };
    for (const { outcomes } of [
      python(t, `localhost:${tls.port.port}`, calls, ca.certFile),
      python(t, unix.port.address, calls),
    ]) {
      const { large } = await outcomes;
      assert.equal(large.code, 0, large.details);
      assert.ok((large.messages[0]?.length ?? 0) > 1_000_000);
    }
  });
}
