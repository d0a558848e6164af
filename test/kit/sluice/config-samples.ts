// Values for every kind of row, derived from the row itself: ones that must pass and ones that must not.

import assert from "node:assert/strict";
import type { TextFormat } from "#config/table/format.ts";
import type { LeafRow } from "#config/table/row.ts";

export interface Sample {
  /** As a file holds it. */
  readonly raw: unknown;
  /** As a variable holds it. */
  readonly text: string;
  /** As the typed tree holds it; absent for a bad sample. */
  readonly value?: unknown;
}

function json(raw: unknown, value?: unknown): Sample {
  return { raw, text: JSON.stringify(raw), ...(value === undefined ? {} : { value }) };
}

/** Values that the row must take. Rules between keys may still object. */
export function goodSamples(row: LeafRow): readonly Sample[] {
  switch (row.kind) {
    case "bool":
      return [json(true, true), json(false, false)];
    case "number": {
      const values = [row.min, row.max, row.default].filter((value) => Math.abs(value) <= 2 ** 53);
      return values.map((value) => json(value, value));
    }
    case "string":
      return samplesOf(row.format).good.map((text) => ({ raw: text, text, value: text }));
    case "choice":
      return row.values.map((text) => ({ raw: text, text, value: text }));
    case "duration":
      return [
        row.most === undefined
          ? { raw: "1m30s", text: "1m30s", value: 90_000 }
          : { raw: "30s", text: "30s", value: 30_000 },
        { raw: "11s500ms", text: "11s500ms", value: 11_500 },
        ...(row.least === "any" ? [{ raw: "-1s", text: "-1s", value: -1_000 }] : []),
        ...(row.least === "0s" ? [{ raw: 0, text: "0", value: 0 }] : []),
      ];
    case "strings":
      return [
        json([], []),
        json(samplesOf(row.format).good.slice(0, 2), samplesOf(row.format).good.slice(0, 2)),
      ];
    case "floats":
      return [json([], []), json([0.25, 0.5], [0.25, 0.5])];
    case "headers":
      return [json({ "x-one": ["a", "b"] }, { "X-One": ["a", "b"] })];
    case "objects":
      return [json([], [])];
  }
}

/** Values that the row must refuse, from a file and from a variable. */
export function badSamples(row: LeafRow): readonly Sample[] {
  switch (row.kind) {
    case "bool":
      return [
        { raw: "yes", text: "yes" },
        { raw: 1, text: "on" },
      ];
    case "number":
      return [
        { raw: "1", text: "1x" },
        { raw: true, text: "" },
        ...(Math.abs(row.min) < 2 ** 53 ? [json(row.min - 1)] : []),
        ...(Math.abs(row.max) < 2 ** 53 ? [json(row.max + 1)] : []),
        ...(row.type === "float64" ? [] : [json(1.5)]),
      ];
    case "string":
      return samplesOf(row.format).bad.map((text) => ({ raw: text, text }));
    case "choice":
      return [
        { raw: "nOnE", text: "nOnE" },
        { raw: 1, text: "1" },
      ];
    case "duration":
      return [
        { raw: "10", text: "10" },
        { raw: 10, text: "1 s" },
        { raw: "577h", text: "577h" },
        ...(row.least === "any" ? [] : [{ raw: "-1s", text: "-1s" }]),
        ...(row.least === "above 0s" ? [{ raw: 0, text: "0" }] : []),
        ...(row.least === "1s" ? [{ raw: "999ms", text: "999ms" }] : []),
        ...(row.least === "10s" ? [{ raw: "9999ms", text: "9999ms" }] : []),
      ];
    case "strings":
      return [
        { raw: "a", text: "[a" },
        { raw: [1], text: '["a"' },
      ];
    case "floats":
      return [
        { raw: 1, text: "1]" },
        { raw: [2, 1], text: "[0.2,0.1]" },
        { raw: ["a"], text: "[a]" },
      ];
    case "headers":
      return [json({ "x one": ["a"] }), json({ x: "a" }), json([])];
    case "objects":
      return [json({}), json([{ not_a_key: 1 }]), json([null])];
  }
}

interface Samples {
  readonly good: readonly string[];
  readonly bad: readonly string[];
}

/** Texts that each format must accept and refuse, by the description of the format. */
const SAMPLES: Readonly<Record<string, Samples>> = {
  "empty, host:port, a URL or a fully qualified name": {
    good: ["", "metrics:9090", "http://metrics:9090/x", "metrics.example.com", "[::1]:443"],
    bad: ["metrics", "http://", "a b", "http://a b", "10.0.0"],
  },
  text: { good: ["", "words and more"], bad: ["a\u0000b"] },
  "host:port, :port or [IPv6%zone]:port (port 0 picks a free one)": {
    good: [":0", ":3320", "[::]:3322", "10.0.0.1:3320"],
    bad: ["", "3320", "unix:/run/a.sock", ":99999"],
  },
  "empty or the name of a control point: at most 1024 characters, none of them a control character, and no blank at either end":
    {
      good: ["", "ingress", "a", "the ingress", "é"],
      bad: [
        " ingress",
        "ingress ",
        "a\nb",
        "�",
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
      ],
    },
  "host:port, a URL or a fully qualified name, without user, password, query and fragment": {
    good: ["etcd:2379", "https://etcd.example.com:2379", "http://etcd:2379/"],
    bad: [
      "",
      "etcd",
      "http://",
      "http://ann:secret@etcd:2379",
      "http://ann@etcd:2379",
      "http://etcd:2379?password=secret",
      "http://etcd:2379/?",
      "http://etcd:2379#secret",
    ],
  },
  "empty or a fully qualified name such as client.example.com": {
    good: ["", "client.example.com"],
    bad: ["client", "not a name", "*.example.com", "10.0.0.1"],
  },
  "empty or host:port": {
    good: ["", "agent.internal:8080", ":8080", "[2001:db8::1]:443"],
    bad: [":0", "agent", "http://agent:80", "host_name:80"],
  },
  "a host name without a port": {
    good: ["sluice", "sluice.example.com"],
    bad: ["", "sluice:8080", "a b", "http://a", "10.0.0.1", "*.example.com"],
  },
  "a name without /": { good: ["default"], bad: ["", "a/b"] },
  "a Prometheus label name (letters, digits and _, not starting with a digit)": {
    good: ["cluster", "_x1"],
    bad: ["", "1a", "a-b"],
  },
  "host:port, :port, [IPv6%zone]:port or unix:/path (port 0 picks a free one)": {
    good: [
      ":0",
      ":8080",
      "localhost:80",
      "127.0.0.1:1",
      "[::1]:8080",
      "[fe80::1%eth0]:80",
      "unix:/run/a.sock",
    ],
    bad: [
      "",
      "8080",
      "::1:8080",
      ":65536",
      "[::1]",
      "256.1.1.1:80",
      "unix:",
      "unix:a.sock",
      "a b:1",
      ":-1",
      ":+8",
    ],
  },
  "the name of a baggage member, not http.* or aperture.*": {
    good: ["user", "tenant.id"],
    bad: ["", "a b", "a=1", "http.method", "aperture.x"],
  },
  "an IP address, a CIDR range, a host name, .domain, host:port or *": {
    good: ["*", "localhost", ".example.com", "10.0.0.0/8", "::1", "db.internal:5432"],
    bad: ["", "10.0.0.0/33", "10.0.0", "a b", "http://a"],
  },
  "empty or an IP address": {
    good: ["", "0.0.0.0", "::", "127.0.0.1"],
    bad: ["localhost", "0.0.0.0:80", "[::]", "10.0.0"],
  },
  "empty, host:port, :port, [IPv6%zone]:port or unix:/path (port 0 picks a free one)": {
    good: [
      "",
      ":0",
      ":8080",
      "localhost:80",
      "127.0.0.1:1",
      "[::1]:8080",
      "[fe80::1%eth0]:80",
      "unix:/run/a.sock",
    ],
    bad: [
      "8080",
      "::1:8080",
      ":65536",
      "[::1]",
      "256.1.1.1:80",
      "unix:",
      "unix:a.sock",
      "a b:1",
      ":-1",
      ":+8",
    ],
  },
  "host:port": {
    good: ["redis-1:6379", "[::1]:26379"],
    bad: ["", ":6379", "redis", "redis://redis:6379"],
  },
  "empty, a URL or host:port": {
    good: ["", "http://proxy:3128", "proxy:3128"],
    bad: ["proxy", "proxy.example.com", "http:///x"],
  },
  "a name without braces": { good: ["sluice", "team/a"], bad: ["", "{a}"] },
  "redis://host:port or rediss://host:port, with or without a database number, and without user, password, query and fragment":
    {
      good: ["redis://redis", "redis://127.0.0.1:6379/2", "rediss://[::1]:6380"],
      bad: [
        "",
        "redis",
        "http://redis",
        "redis://redis/x",
        "redis://:secret@redis",
        "redis://redis?password=secret",
        "redis://redis/2?",
        "redis://redis#secret",
      ],
    },
  "empty or NAME.NAMESPACE.svc.DOMAIN:PORT": {
    good: ["", "sluice-agent.sluice.svc.cluster.local:8080"],
    bad: [
      "sluice-agent:8080",
      "sluice-agent.sluice.svc.cluster.local",
      "a.b.svc:80",
      "A.b.svc.c:1",
    ],
  },
  "text that is not empty": { good: ["default", "a/b"], bad: ["", " "] },
  "the name of a Kubernetes namespace": {
    good: ["shop", "team-a"],
    bad: [
      "",
      "Shop",
      "a.b",
      "a/b",
      "-a",
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ],
  },
  "empty or a quantity, such as 100m or 128Mi": {
    good: ["", "100m", "0.5", "128Mi"],
    bad: ["fast", "1e3", "-1", "1 Gi"],
  },
  "the name of a Kubernetes object": {
    good: ["sluice-injector", "a.b"],
    bad: ["", "Sluice", "a/b", "-a"],
  },
  "empty or the name of a Kubernetes object": {
    good: ["", "sluice-injector", "a.b"],
    bad: ["Sluice", "a/b", "-a"],
  },
  "NAME=VALUE: a variable that is no key of the agent (SVC_AGENT_…), and its value": {
    good: ["NODE_OPTIONS=--max-old-space-size=256", "EMPTY="],
    bad: ["", "NAME", "=value", "1A=b", "SVC_AGENT_LOG_LEVEL=debug"],
  },
  "KEY=SECRET/ENTRY: a key of the agent, and the Secret and its entry that hold the value": {
    good: ["etcd.password=sluice-agent/etcd-password"],
    bad: ["", "etcd.password", "etcd.password=secret", "ETCD=a/b", "a=B/c"],
  },
};

export function samplesOf({ wanted }: TextFormat): Samples {
  return SAMPLES[wanted] ?? assert.fail(`no samples for the format "${wanted}"`);
}
