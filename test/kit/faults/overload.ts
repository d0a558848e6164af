// More checks than an agent can judge: a policy whose selectors and classifiers cost some hundred microseconds, and a caller
// that sends checks at a given rate however late the answers are.

import { type ClientHttp2Session, connect } from "node:http2";

/** Items of the document in the body of each request, which a classifier reads. */
const ITEMS = 5;

export type Tier = "gold" | "tin";
const MODES = ["closed", "open"] as const;
type Mode = (typeof MODES)[number];

/** A limiter whose selector tries many regular expressions in vain, and then matches. */
function rateLimiter(mode: Mode, tried: number): string {
  const patterns = Array.from(
    { length: tried },
    (_, at) =>
      `{label_matches: {label: note, regex: '(?i)(red|blue)[a-z ]*${at}[0-9]+ (left|right)$'}}`,
  );
  return `    - flow_control:
        rate_limiter:
          selectors:
            - control_point: ${mode}
              label_matcher:
                expression:
                  any: {of: [${patterns.join(", ")}, {label_exists: note}]}
          in_ports:
            bucket_capacity: {constant_signal: {value: 1000000000}}
            fill_amount: {constant_signal: {value: 1000000000}}
          parameters: {interval: 1s, on_failure: ${mode}}
`;
}

/**
 * Refuses what it cannot judge at `closed`, and lets it pass at `open`. Both prioritise flows by their header `tier`. A check
 * takes some 4 µs for each of so many patterns.
 */
export function costlyPolicy(patterns = 40): string {
  const scheduler = MODES.map(
    (mode) => `    - flow_control:
        quota_scheduler:
          in_ports:
            bucket_capacity: {constant_signal: {value: 1000000000}}
            fill_amount: {constant_signal: {value: 1000000000}}
          rate_limiter: {interval: 1s, on_failure: ${mode}}
          scheduler:
            workloads:
              - name: gold
                label_matcher: {match_labels: {http.request.header.tier: gold}}
                parameters: {priority: 200}
          selectors: [{control_point: ${mode}}]
`,
  );
  return `circuit:
  evaluation_interval: 1s
  components:
${MODES.map((mode) => rateLimiter(mode, patterns)).join("")}${scheduler.join("")}
resources:
  flow_control:
    classifiers:
      - selectors: [{control_point: closed}, {control_point: open}]
        rules:
          note: {extractor: {json: {from: request.http.body, pointer: /items/${ITEMS - 1}/note}}}
`;
}

/** The answers to the checks of one tier at one control point. */
export interface Answers {
  judged: number;
  shed: number;
  /** Accepted checks among those that were shed. */
  passed: number;
  /** Milliseconds from the moment at which each was sent to its answer. */
  readonly latencies: number[];
  /** Those that were shed, in the order of the answers. */
  readonly order: boolean[];
}

export interface LoadResult {
  readonly sent: number;
  /** Milliseconds by which checks were sent later than they were due, the least first. */
  readonly late: readonly number[];
  readonly failed: readonly string[];
  readonly answers: ReadonlyMap<string, Answers>;
}

export function tierOf(index: number): Tier {
  return index % 10 === 0 ? "gold" : "tin";
}

function modeOf(index: number): Mode {
  return index % 20 < 10 ? "closed" : "open";
}

/** Each is another text: regular expressions remember what they were asked last. */
function bodyOf(index: number): string {
  const items = Array.from({ length: ITEMS }, (_, at) => ({
    id: index * ITEMS + at,
    name: `item ${at} of ${index}`,
    note: `a note about order ${index}, red and blue ${(index * 7919) % 1000003} to the left`,
  }));
  const request = {
    method: "POST",
    path: `/orders/${index}`,
    headers: { tier: tierOf(index), "x-user": `user-${index % 1_000}` },
    body: JSON.stringify({ items }),
  };
  return JSON.stringify({ control_point: modeOf(index), request });
}

/** Megabytes of calls that wait in a session. Beyond it the client resets them itself. */
const MOST_MB = 1_000;

export class OverloadCaller {
  readonly #sessions: readonly ClientHttp2Session[];

  constructor(address: string, sessions = 8) {
    this.#sessions = Array.from({ length: sessions }, () =>
      connect(`http://${address}`, { maxSessionMemory: MOST_MB }),
    );
    for (const session of this.#sessions) session.on("error", () => undefined);
  }

  close(): void {
    for (const session of this.#sessions) session.destroy();
  }

  /** Lets so many callers send checks one after the other until `checks` are answered. Returns how many were a second. */
  async capacity(callers: number, checks: number): Promise<number> {
    const began = performance.now();
    const result = newResult();
    const loop = async () => {
      while (result.sent < checks) await this.#check(result.sent++, result);
    };
    await Promise.all(Array.from({ length: callers }, loop));
    return (checks / (performance.now() - began)) * 1_000;
  }

  /**
   * Sends `rate` checks a second until `done`, and waits for all answers. `important`: only checks of gold, at one control
   * point.
   */
  async send(
    rate: number,
    done: (result: LoadResult, ms: number) => boolean,
    important = false,
  ): Promise<LoadResult> {
    const result = newResult();
    const began = performance.now();
    const all: Promise<void>[] = [];
    for (;;) {
      const passed = performance.now() - began;
      if (done(result, passed)) break;
      const due = Math.floor((passed / 1_000) * rate);
      for (; result.sent < due; result.sent++) {
        result.late.push(passed - (result.sent / rate) * 1_000);
        all.push(this.#check(important ? 20 * result.sent : result.sent, result));
      }
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    await Promise.all(all);
    result.late.sort((a, b) => a - b);
    return result;
  }

  #check(index: number, result: MutableResult): Promise<void> {
    const sent = performance.now();
    const session = this.#sessions[index % this.#sessions.length];
    const stream = session?.request({
      ":method": "POST",
      ":path": "/v1/flowcontrol/checkhttp",
      "content-type": "application/json",
    });
    if (stream === undefined) return Promise.resolve();
    return new Promise((resolve) => {
      let status = 0;
      let cause: unknown;
      let text = "";
      stream.on("response", (headers) => {
        status = headers[":status"] ?? 0;
        cause = headers["x-sluice-shed"];
      });
      stream.setEncoding("utf8");
      // The decision is at the begin of an answer.
      stream.on("data", (part: string) => {
        if (cause !== undefined && text.length < 4_096) text += part;
      });
      stream.on("error", (error: Error) => result.failed.push(error.message));
      stream.on("close", () => {
        if (status === 200) count(result, index, sent, cause !== undefined, text);
        else result.failed.push(`status ${status}`);
        resolve();
      });
      stream.end(bodyOf(index));
    });
  }
}

interface MutableResult {
  sent: number;
  readonly late: number[];
  readonly failed: string[];
  readonly answers: Map<string, Answers>;
}

function newResult(): MutableResult {
  return { sent: 0, late: [], failed: [], answers: new Map() };
}

function count(
  { answers }: MutableResult,
  index: number,
  sent: number,
  shed: boolean,
  text: string,
): void {
  const key = `${modeOf(index)} ${tierOf(index)}`;
  const own = answers.get(key) ?? { judged: 0, shed: 0, passed: 0, latencies: [], order: [] };
  answers.set(key, own);
  own.latencies.push(performance.now() - sent);
  own.order.push(shed);
  if (!shed) own.judged++;
  else {
    own.shed++;
    if (text.includes("DECISION_TYPE_ACCEPTED")) own.passed++;
  }
}
