// The generated pages in `docs/` are up to date.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ATTRIBUTES } from "#flow/classify/attribute.ts";
import { HEADER_PREFIX, HTTP_LABELS, PATH_LABEL, SERVICE_LABELS } from "#flow/label.ts";
import { WARNINGS } from "#policy/document/warning.ts";
import { FinishedFlows } from "#telemetry/flows/finished-flows.ts";
import { numberOf } from "#telemetry/flows/flow-report.ts";
import { FluxMeters } from "#telemetry/flows/flux-meter.ts";
import { reportOfRecord } from "#telemetry/flows/otlp-record.ts";
import { UnreportedFlows } from "#telemetry/flows/unreported-flows.ts";
import { PAGES } from "./tools/docs.ts";

for (const [file, text] of Object.entries(PAGES)) {
  test(`docs/${file} is up to date with \`make docs\``, () => {
    assert.equal(readFileSync(join(import.meta.dirname, "../docs", file), "utf8"), text());
  });
}

test("docs/security.md names tests that exist", () => {
  const page = readFileSync(join(import.meta.dirname, "../docs/security.md"), "utf8");
  const named = [...page.matchAll(/`(test\/[^`]+)`/g)].map(([, path = ""]) => path);
  assert.ok(named.length > 0);
  for (const path of named) assert.ok(existsSync(join(import.meta.dirname, "..", path)), path);
});

test("docs/writing-policies.md lists every code of a warning with its meaning", () => {
  const page = readFileSync(join(import.meta.dirname, "../docs/writing-policies.md"), "utf8");
  const [, section = ""] = /^## Warnings$(.*?)^## /ms.exec(page) ?? [];
  const listed = [...section.matchAll(/^\| `(\w+)` \| (.*) \|$/gm)];
  assert.deepEqual(
    Object.fromEntries(listed.map(([, code, meaning]) => [code, meaning])),
    WARNINGS,
  );
});

test("docs/labels.md lists every label of a request and every attribute", () => {
  const page = readFileSync(join(import.meta.dirname, "../docs/labels.md"), "utf8");
  const namesIn = (heading: string) => {
    const [, section = ""] = new RegExp(`^## ${heading}$(.*?)^## `, "ms").exec(page) ?? [];
    const cells = [...section.matchAll(/^\| (`[^|]*`) \|/gm)].map(([, cell = ""]) => cell);
    return cells.flatMap((cell) => cell.split(", ").map((name) => name.replaceAll("`", "")));
  };
  const labels = [...SERVICE_LABELS, ...HTTP_LABELS, PATH_LABEL, `${HEADER_PREFIX}NAME`];
  assert.deepEqual(namesIn("Labels that every request has").sort(), labels.sort());
  assert.deepEqual(namesIn("Attributes that classifiers read").sort(), [...ATTRIBUTES].sort());
});

test("docs/labels.md and docs/access-logs.md have an example in each row", () => {
  for (const [file, headings] of [
    ["labels.md", ["Labels that every request has", "Attributes that classifiers read"]],
    ["access-logs.md", ["Attributes of a record"]],
  ] as const) {
    const page = readFileSync(join(import.meta.dirname, "../docs", file), "utf8");
    for (const heading of headings) {
      const [head, , ...rows] = tableOf(page, heading);
      assert.equal(head?.at(-1), "Example", heading);
      assert.ok(rows.length > 0, heading);
      for (const cells of rows) assert.match(cells.at(-1) ?? "", /^`.+`/, `example of ${cells[0]}`);
    }
  }
});

test("docs/access-logs.md lists every attribute that Sluice reads or that deploy/envoy sends", () => {
  const page = readFileSync(join(import.meta.dirname, "../docs/access-logs.md"), "utf8");
  const listed = tableOf(page, "Attributes of a record")
    .slice(2)
    .flatMap(([names = ""]) => names.split(", ").map((name) => name.replaceAll("`", "")));
  const sent = ["sidecar.yaml", "sidecar-unix.yaml", "access-log-slim.yaml"].flatMap((file) => {
    const text = readFileSync(join(import.meta.dirname, "../deploy/envoy", file), "utf8");
    const [, attributes = ""] = /^( *)attributes:.*\n((?:\1 .*\n)+)/m.exec(text)?.slice(1) ?? [];
    return [...attributes.matchAll(/\bkey: ([\w.-]+)/g)].map(([, key = ""]) => key);
  });
  assert.ok(sent.includes("x-request-id") && sent.includes("BYTES_SENT"));
  const asked = new Set<string>();
  for (const source of ["envoy", "sdk"] as const) {
    const record = new Map<string, string>([["aperture.source", source]]);
    if (source === "sdk") record.set("aperture.check_response", "{}");
    record.get = (name) => {
      asked.add(name);
      return Map.prototype.get.call(record, name);
    };
    const meters = new FluxMeters();
    const report = reportOfRecord(record);
    assert.ok(report !== undefined);
    new FinishedFlows(meters, () => [], new UnreportedFlows()).consume(record);
    for (const number of [
      "flow_duration_ms",
      "workload_duration_ms",
      "http.response_content_length",
    ])
      numberOf(report, number, () => undefined);
  }
  const unlisted = [...sent, ...asked].filter((name) => !listed.includes(name));
  // The page says in words that times may come without their unit.
  assert.deepEqual(
    unlisted.filter((name) => !listed.includes(`${name}_ms`)),
    [],
  );
});

/** The cells of each line of the first table under a heading. */
function tableOf(page: string, heading: string): readonly (readonly string[])[] {
  const lines = page.split("\n");
  const below = lines.slice(lines.indexOf(`## ${heading}`) + 1);
  const rows = below.slice(below.findIndex((line) => line.startsWith("|")));
  return rows
    .slice(
      0,
      rows.findIndex((line) => !line.startsWith("|")),
    )
    .map((line) =>
      line
        .slice(1, -1)
        .split("|")
        .map((cell) => cell.trim()),
    );
}

test("the README names every port that opens by itself, with its default", () => {
  const readme = readFileSync(join(import.meta.dirname, "../README.md"), "utf8");
  const reference = readFileSync(join(import.meta.dirname, "../docs/configuration.md"), "utf8");
  const keys = /^\| `(otel\.ports\.\w+)` \| `(\d+)` \| `(SVC_AGENT_\w+)`/gm;
  const ports = [...reference.matchAll(keys)].map(([, ...cells]) => cells);
  assert.ok(ports.length >= 4);
  for (const [key, port, variable] of ports) {
    const row = new RegExp(`^\\| ${port} \\| .* \\| \`${key}\`, \`${variable}\` \\|$`, "m");
    assert.match(readme, row);
  }
});
