// Ends of requests in the model: when the agent learns of them, and which durations it records.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { concurrencyPolicy } from "../kit/messages/policy.ts";
import { run } from "./scenarios.ts";

const SERVICE = (more: string) => `services:
  - name: s
    control_point: p
    arrivals: uniform
    rate: 100
    servers: 100
    service_time: { constant: 10ms }
    ${more}
`;

const query = (promql: string, signal: string) => `
    - query:
        promql:
          evaluation_interval: 1s
          query_string: ${promql}
          out_ports: { output: { signal_name: ${signal} } }`;

/** Ten requests a second; the others wait for at most a second. */
const QUEUE = `circuit:
  evaluation_interval: 1s
  components:
    - flow_control:
        quota_scheduler:
          selectors: [{ control_point: p }]
          in_ports:
            bucket_capacity: { constant_signal: { value: 1 } }
            fill_amount: { constant_signal: { value: 10 } }
          rate_limiter: { interval: 1s, continuous_fill: true }
          scheduler:
            default_workload_parameters: { queue_timeout: 1s }
            workloads:
              - name: gold
                label_matcher: { match_labels: { tier: gold } }
                parameters: { queue_timeout: 1s }${query("sum(flux_meter_sum{flux_meter_name='whole'}) / sum(flux_meter_count{flux_meter_name='whole'})", "WHOLE")}${query("sum(flux_meter_sum{flux_meter_name='work'}) / sum(flux_meter_count{flux_meter_name='work'})", "WORK")}${query("sum(workload_latency_ms_sum{workload_index='gold'}) / sum(workload_latency_ms_count{workload_index='gold'})", "GOLD")}${query("sum(workload_latency_ms_count)", "ENDED")}
resources:
  flow_control:
    flux_meters:
      whole: { selectors: [{ control_point: p }], attribute_key: flow_duration_ms }
      work: { selectors: [{ control_point: p }] }
`;

describe("the end of a request", () => {
  it("is not counted where its check waits for ever, and a note says so", async () => {
    const never = QUEUE.replaceAll("queue_timeout: 1s", "queue_timeout: 3600s").replace(
      "fill_amount: { constant_signal: { value: 10 } }",
      "fill_amount: { constant_signal: { value: 0.001 } }",
    );
    const { notes } = await run(`duration: 2s\n${SERVICE("")}`, { policies: { queue: never } });
    assert.ok(
      notes.some(({ text }) => /^service s: 198 checks still waited .* do not count$/.test(text)),
      JSON.stringify(notes),
    );
  });

  it("frees its slot when the agent is told of it", async () => {
    const policy = concurrencyPolicy(1);
    const accepted = async (more: string) => {
      const { rows } = await run(`duration: 60s\n${SERVICE(more)}`, { policies: { one: policy } });
      return rows[0]?.accepted ?? 0;
    };
    // A request arrives every 10 ms and takes as long.
    assert.ok((await accepted("report_every: 0s")) > 45);
    // One slot for each interval.
    assert.ok(Math.abs((await accepted("report_every: 100ms")) - 10) < 0.5);
  });

  it("is measured with the wait in a queue and without, and counted to its workload", async () => {
    const mix = "mix: [{ share: 1, labels: { tier: gold } }, { share: 1, labels: {} }]";
    const { seriesOf: line, rows } = await run(`duration: 60s\n${SERVICE(mix)}`, {
      policies: { queue: QUEUE },
    });
    const last = (name: string) => line(name)?.values.at(-1) ?? Number.NaN;
    assert.equal(Math.round(last("WORK")), 10);
    assert.ok(last("WHOLE") > 500, `${last("WHOLE")}`);
    assert.equal(Math.round(last("GOLD")), 10);
    const { rows: free } = await run(`duration: 60s\n${SERVICE(mix)}`);
    assert.equal(rows[0]?.offered, free[0]?.offered, "those that wait at the end have arrived");
    // However long their queue lets them wait.
    const patient = QUEUE.replaceAll("queue_timeout: 1s", "queue_timeout: 45s");
    const { rows: late } = await run(`duration: 60s\n${SERVICE(mix)}`, {
      policies: { queue: patient },
    });
    assert.equal(late[0]?.offered, free[0]?.offered);
    const answered = (rows[0]?.goodput ?? 0) * 60;
    assert.ok(Math.abs(last("ENDED") - answered) < 30, `${last("ENDED")} of ${answered}`);
  });
});
