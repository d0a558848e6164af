// Each call of the client as the API server gets it, and what becomes of its refusals.

import assert from "node:assert/strict";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import type { Fault } from "#base/fault.ts";
import { HttpClient } from "#client/http.ts";
import { pathOf } from "#kube/api/objects.ts";
import { clientOf, fakeApi, THINGS, thing } from "../../kit/kube/fake-api.ts";
import { authority, temporaryFolder } from "../../kit/servers/tls.ts";
import { realClock } from "../../kit/sluice/port.ts";
import { clientSettings, NO_PROXY } from "../../prometheus/kit.ts";

const PLACE = { namespace: "a", name: "x" };

test("the core group has a path of its own, and names are escaped", () => {
  const pods = { group: "", version: "v1", plural: "pods" };
  assert.equal(pathOf(pods), "/api/v1/pods");
  assert.equal(
    pathOf(pods, { namespace: "a/b", name: "c?" }),
    "/api/v1/namespaces/a%2Fb/pods/c%3F",
  );
  const scale = { namespace: "a", name: "x", subresource: "scale" } as const;
  assert.equal(pathOf(THINGS, scale), "/apis/example.com/v1/namespaces/a/things/x/scale");
});

test("each call has the method, path and type that the API wants", async (t) => {
  const api = await fakeApi(t);
  api.before = ({ reply }) => {
    reply(200, thing("x", "2"));
    return true;
  };
  const client = clientOf(t, api);
  await client.get(THINGS, PLACE);
  await client.create(THINGS, thing("x", ""));
  await client.update(THINGS, thing("x", "1"), "status");
  await client.patch(THINGS, { ...PLACE, subresource: "scale" }, { merge: { spec: 1 } });
  await client.patch(THINGS, PLACE, { json: [{ op: "remove", path: "/spec" }] });
  await client.patch(THINGS, PLACE, { apply: thing("x", ""), manager: "sluice", force: true });
  await client.delete(THINGS, PLACE);
  const base = "/apis/example.com/v1/namespaces/a/things";
  assert.deepEqual(
    api.asked.map(({ method, path, query, headers }) =>
      [method, path, headers["content-type"], query.toString()].filter((part) => part).join(" "),
    ),
    [
      `GET ${base}/x`,
      `POST ${base} application/json`,
      `PUT ${base}/x/status application/json`,
      `PATCH ${base}/x/scale application/merge-patch+json`,
      `PATCH ${base}/x application/json-patch+json`,
      `PATCH ${base}/x application/apply-patch+yaml fieldManager=sluice&force=true`,
      `DELETE ${base}/x`,
    ],
  );
  assert.equal(api.asked[3]?.body, '{"spec":1}');
  assert.ok(api.asked.every(({ headers }) => headers.authorization === "Bearer secret"));
});

test("a refusal has the server's reason and a code that tells what to do", async (t) => {
  const api = await fakeApi(t);
  const client = clientOf(t, api);
  for (const [status, reason, code] of [
    [404, "NotFound", "NOT_FOUND"],
    [409, "AlreadyExists", "ALREADY_EXISTS"],
    [409, "Conflict", "ABORTED"],
    [422, "Invalid", "INVALID_ARGUMENT"],
    [403, "Forbidden", "PERMISSION_DENIED"],
    [503, "", "UNAVAILABLE"],
  ] as const) {
    api.before = ({ reply }) => {
      reply(status, { kind: "Status", reason, message: "the reason" });
      return true;
    };
    await assert.rejects(client.create(THINGS, thing("x", "")), (fault: Fault) => {
      assert.equal(fault.code, code);
      assert.match(fault.message, /^POST .*\/things: status \d+: the reason$/);
      return true;
    });
  }
});

test("deleting what does not exist is no fault", async (t) => {
  const api = await fakeApi(t);
  api.before = ({ reply }) => {
    reply(404, { reason: "NotFound" });
    return true;
  };
  await clientOf(t, api).delete(THINGS, PLACE);
});

test("a reply that is not JSON is a fault, and nothing of it is repeated", async (t) => {
  const api = await fakeApi(t);
  api.before = ({ reply }) => {
    reply(200, "<html>secret</html>");
    return true;
  };
  await assert.rejects(clientOf(t, api).get(THINGS, PLACE), /\/things\/x: the reply is not JSON$/);
});

test("certificates that are given as contents are used like those in files", async (t) => {
  const ca = authority(temporaryFolder(t), "ca");
  const own = ca.issue("server");
  const client = ca.issue("client");
  let peer = "";
  const server = createServer(
    { cert: own.cert, key: own.key, ca: ca.cert, requestCert: true, rejectUnauthorized: true },
    (request, response) => {
      peer = JSON.stringify((request.socket as import("node:tls").TLSSocket).getPeerCertificate());
      response.end("{}");
    },
  );
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => server.close());
  const http = new HttpClient({
    settings: clientSettings(),
    key: "http_client",
    proxy: NO_PROXY,
    env: {},
    clock: realClock,
    fallback: {
      files: { ca_file: "", cert_file: "", key_file: "" },
      material: { ca: ca.cert, cert: client.cert, key: client.key },
      insecure: false,
    },
  });
  t.after(() => http.close());
  const { port } = server.address() as AddressInfo;
  const { status } = await http.call({ method: "GET", url: `https://127.0.0.1:${port}/` });
  assert.equal(status, 200);
  assert.match(peer, /"CN":"client"/);
});
