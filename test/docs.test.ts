// The README and the pages in `docs/` are up to date, within their length, and lead to each other.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
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
import { runCommand } from "./kit/command.ts";
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

test("docs/processes.md names every port that opens by itself, with its default", () => {
  const page = readFileSync(join(import.meta.dirname, "../docs/processes.md"), "utf8");
  const reference = readFileSync(join(import.meta.dirname, "../docs/configuration.md"), "utf8");
  const keys = /^\| `(otel\.ports\.\w+)` \| `(\d+)` \|/gm;
  const ports = [...reference.matchAll(keys)].map(([, ...cells]) => cells);
  assert.ok(ports.length >= 4);
  for (const [key = "", port] of ports) {
    const variable = `SVC_AGENT_${key.toUpperCase().replaceAll(".", "_")}`;
    const row = new RegExp(`^\\| ${port} \\| .* \\| \`${key}\`, \`${variable}\` \\|$`, "m");
    assert.match(page, row);
  }
});

const ROOT = join(import.meta.dirname, "..");

test("the README has at most 900 words", () => {
  const words = readFileSync(join(ROOT, "README.md"), "utf8").split(/\s+/).filter(Boolean);
  assert.ok(words.length <= 900, `${words.length} words`);
});

test("the one-shot commands of the README succeed", async () => {
  const page = readFileSync(join(ROOT, "README.md"), "utf8");
  const commands = [...page.matchAll(/^\$ npm run -s sluice -- ((?:policy|simulate) .*)$/gm)];
  assert.ok(commands.length >= 2);
  const before = process.cwd();
  process.chdir(ROOT);
  try {
    for (const [, args = ""] of commands) {
      const { code, err } = await runCommand(args.split(" "));
      assert.equal(code, 0, `${args}: ${err}`);
    }
  } finally {
    process.chdir(before);
  }
});

const hand = ["README.md", ...pagesIn("docs"), ...pagesIn("docs/cookbook")];

test("links of the README and of docs/ lead to files and headings that exist", () => {
  for (const page of hand) {
    const text = readFileSync(join(ROOT, page), "utf8").replaceAll(/```.*?```/gs, "");
    for (const [, link = ""] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(link)) continue;
      const [path = "", heading] = link.split("#");
      const target = path === "" ? join(ROOT, page) : join(ROOT, page, "..", path);
      assert.ok(existsSync(target), `${page} links to ${link}`);
      if (heading === undefined || !target.endsWith(".md")) continue;
      assert.ok(anchorsOf(readFileSync(target, "utf8")).has(heading), `${page} links to ${link}`);
    }
  }
});

test("docs/policy-components.md has an example of each component and resource", () => {
  const page = readFileSync(join(ROOT, "docs/policy-components.md"), "utf8");
  const [, components = ""] = /^## Components$(.*?)^## Shared parts$/ms.exec(page) ?? [];
  const sections = components.split(/^### /m).slice(1);
  assert.ok(sections.length > 40);
  for (const section of sections) assert.match(section, /^```yaml$/m, section.slice(0, 60));
});

test("docs/README.md, the map, leads to every page", () => {
  const map = readFileSync(join(ROOT, "docs/README.md"), "utf8");
  for (const page of pagesIn("docs")) {
    const name = page.slice("docs/".length);
    if (name !== "README.md") assert.ok(map.includes(`](${name}`), name);
  }
});

test("every page that is written by hand begins with what its reader has at the end, and how long it takes", () => {
  for (const page of hand) {
    if (page === "README.md") continue;
    const text = readFileSync(join(ROOT, page), "utf8");
    if (/^<!-- (Generated|Written) /m.test(text)) continue;
    const [, first = ""] = /^# [^\n]*\n+(.*?)\n\n/s.exec(text) ?? [];
    assert.match(first, /\btakes [^.]*\b(minutes?|hour)\b/, `${page} begins: ${first}`);
  }
});

function pagesIn(folder: string): readonly string[] {
  const files = readdirSync(join(ROOT, folder)).filter((file) => file.endsWith(".md"));
  return files.map((file) => `${folder}/${file}`);
}

/** Anchors as GitHub makes them of headings. */
function anchorsOf(page: string): ReadonlySet<string> {
  const headings = [...page.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading);
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}
