// The descriptors that server reflection serves, read as a reflection client reads them.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { create, createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import {
  descriptorsOf,
  registry,
  type ServedService,
  schemaOf,
} from "#wire/protobuf/descriptors.ts";

const CHECK_HTTP = "aperture.flowcontrol.checkhttp.v1.FlowControlServiceHTTP";
const ENVOY = "envoy.service.auth.v3.Authorization";

/** Full names of the services in the descriptor set, sorted. */
function servicesIn(packages: string): string[] {
  const described = [...registry].filter(({ kind }) => kind === "service");
  return described
    .map(({ typeName }) => typeName)
    .filter((name) => name.startsWith(packages))
    .sort();
}

/** The services with all methods that are declared. */
function whole(names: readonly string[]): readonly ServedService[] {
  return names.map((name) => {
    const declared = registry.getService(name)?.methods ?? [];
    return { name, methods: Object.fromEntries(declared.map((method) => [method.name, true])) };
  });
}

test("the descriptor file of each service is complete: all its types resolve without other files", () => {
  const names = servicesIn("");
  const descriptors = descriptorsOf(whole(names));
  assert.ok(names.length > 20);
  for (const name of names) {
    const bytes = descriptors.fileContainingSymbol(name);
    assert.ok(bytes, name);
    const file = bytes.map((each) => fromBinary(FileDescriptorProtoSchema, each));
    assert.equal(new Set(file.map((each) => each.name)).size, file.length);
    // The first is the one asked for; a registry takes them with dependencies first.
    assert.ok(file[0]?.service.some((s) => `${file[0]?.package}.${s.name}` === name));
    const registry = createFileRegistry(create(FileDescriptorSetSchema, { file: ordered(file) }));
    assert.ok((registry.getService(name)?.methods.length ?? 0) > 0);
  }
});

type File = { readonly name: string; readonly dependency: readonly string[] };

function ordered<F extends File>(files: readonly F[]): F[] {
  const done = new Map<string, F>();
  const visit = (file: F): void => {
    if (done.has(file.name)) return;
    for (const name of file.dependency) {
      const needed = files.find((each) => each.name === name);
      assert.ok(needed, `${name} is missing`);
      visit(needed);
    }
    done.set(file.name, file);
  };
  for (const file of files) visit(file);
  return [...done.values()];
}

test("every recorded service is described", () => {
  const table = readFileSync(`${import.meta.dirname}/messages.txt`, "utf8");
  const declared = new Set([...table.matchAll(/^rpc (\S+)\//gm)].map(([, name]) => name));
  assert.deepEqual(servicesIn("aperture."), [...declared].sort());
});

test("symbols of every kind are found, and unknown ones are not", () => {
  const descriptors = descriptorsOf(whole([CHECK_HTTP, ENVOY, "not.a.Service"]));
  const fileOf = (symbol: string): string | undefined => {
    const [bytes] = descriptors.fileContainingSymbol(symbol) ?? [];
    return bytes && fromBinary(FileDescriptorProtoSchema, bytes).name;
  };
  const ours = "aperture.flowcontrol.checkhttp.v1";
  const path = "aperture/flowcontrol/checkhttp/v1/checkhttp.proto";
  const symbols = [
    CHECK_HTTP,
    `${CHECK_HTTP}.CheckHTTP`,
    `${ours}.SocketAddress`,
    `${ours}.SocketAddress.port`,
    `${ours}.SocketAddress.Protocol`,
    `${ours}.SocketAddress.UDP`,
    `${ours}.CheckHTTPRequest.HttpRequest`,
    `${ours}.CheckHTTPResponse.http_response`,
  ];
  for (const symbol of symbols) assert.equal(fileOf(symbol), path, symbol);
  assert.equal(fileOf("validate.rules"), "validate/validate.proto");
  assert.equal(fileOf("google.protobuf.Duration"), "google/protobuf/duration.proto");
  assert.equal(fileOf(`${ours}.Nothing`), undefined);
  assert.equal(fileOf("not.a.Service"), undefined);
  assert.equal(fileOf("aperture.info.v1.InfoService"), undefined);
  assert.deepEqual(descriptors.services(), [CHECK_HTTP, ENVOY, "not.a.Service"]);
  assert.ok((descriptors.fileByName(path)?.length ?? 0) > 5);
  assert.equal(descriptors.fileByName("no.proto"), undefined);
});

test("methods that do not answer are neither described nor found", () => {
  const name = "aperture.flowcontrol.check.v1.FlowControlService";
  const descriptors = descriptorsOf([{ name, methods: { Check: true, FlowEnd: true } }]);
  const [bytes] = descriptors.fileContainingSymbol(`${name}.FlowEnd`) ?? [];
  assert.ok(bytes);
  const { service } = fromBinary(FileDescriptorProtoSchema, bytes);
  assert.deepEqual(
    service.map(({ method }) => method.map((each) => each.name)),
    [["Check", "FlowEnd"]],
  );
  assert.equal(descriptors.fileContainingSymbol(`${name}.CacheLookup`), undefined);
  const unserved = descriptorsOf([{ name: CHECK_HTTP, methods: { CheckHTTP: true } }]);
  assert.equal(unserved.fileContainingSymbol(name), undefined);
});

test("messages are found by name, also those of imported files", () => {
  assert.equal(schemaOf("aperture.status.v1.GroupStatus").fields.length, 2);
  assert.ok(registry.getMessage("google.protobuf.Timestamp"));
  const unknown = "aperture.info.v1.Nothing" as "aperture.info.v1.HostInfo";
  assert.throws(() => schemaOf(unknown), /not a known message/);
});
