// Sends the metrics of the process to the server in `prometheus.address` by remote write. Circuits of controllers in other
// processes query them there.

import { hostname } from "node:os";
import { uuid } from "#base/chance.ts";
import { HttpClient } from "#client/http.ts";
import type { AgentConfig } from "#config/tree.ts";
import type { SluiceProcess } from "#daemon/process.ts";
import { RESULTS, RemoteWrite } from "#prometheus/remote-write.ts";

/** Metrics with a series for each gRPC method, which are too many for a server with many agents. */
const HIGH_CARDINALITY = /^grpc_server_(?:handled|handling|msg|started)/;

export function publishMetrics(
  { clock, chance, env, log, metrics, health, scope, service }: SluiceProcess,
  { agent_info, client, otel, prometheus }: AgentConfig,
): void {
  if (prometheus.address === "") return;
  const own = log.child("remote-write");
  const settings = prometheus.http_client;
  const http = new HttpClient({
    settings,
    key: "prometheus.http_client",
    proxy: client.proxy,
    env,
    clock,
    log: own,
  });
  const status = health.root.at("system", "telemetry").at("component", "remote-write");
  const everything = otel.enable_high_cardinality_platform_metrics;
  const writer = new RemoteWrite({
    address: prometheus.address,
    http,
    samples: () => metrics.samples((name) => everything || !HIGH_CARDINALITY.test(name)),
    labels: {
      job: service,
      instance: hostname(),
      process_uuid: uuid(chance),
      agent_group: agent_info.agent_group,
    },
    everyMs: otel.batch_postrollup.timeout,
    maxSeries: otel.batch_postrollup.send_batch_max_size,
    clock,
    log: own,
    state: (trouble) => {
      if (trouble === undefined) status.ok("the metrics server accepts the samples");
      else status.fail(trouble);
    },
  });
  const remove = metrics.add({
    collect(to) {
      for (const result of RESULTS)
        to.number("sluice_remote_write_samples_total", [result], writer.counts[result]);
      to.number("sluice_remote_write_waiting_bytes", [], writer.waitingBytes);
    },
  });
  scope.add("remote write", async () => {
    remove();
    await writer.close();
    await http.close();
  });
}
