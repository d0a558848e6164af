// Answers the questions of controllers, which arrive through the store or over connections that the agent opens to the
// controllers.

import { hostname } from "node:os";
import { agentFunctions } from "#api/fleet/agent-functions.ts";
import { Fault } from "#base/fault.ts";
import { grpcServer } from "#client/grpc-server.ts";
import type { AgentConfig } from "#config/tree.ts";
import type { ProcessPart, SluiceProcess } from "#daemon/process.ts";
import { Answers } from "#fleet/calls/answers.ts";
import { FunctionRunner, OUTCOMES } from "#fleet/calls/functions.ts";
import { Outbound } from "#fleet/calls/outbound.ts";
import type { JoinedGroup } from "#fleet/joined-group.ts";
import type { SeenControlPoint } from "#telemetry/flows/flow-metrics.ts";

type Config = Pick<AgentConfig, "agent_info" | "agent_functions" | "client">;

/** Returns a function to call when the main port is open. */
export function answerControllers(
  process: SluiceProcess,
  config: Config,
  group: JoinedGroup,
  controlPoints: () => readonly SeenControlPoint[],
): NonNullable<ProcessPart["opened"]> {
  const { clock, metrics, store, id, scope } = process;
  const log = process.log.child("requests");
  const own = agentFunctions(config.agent_info.agent_group, controlPoints);
  const functions = new FunctionRunner(own, clock, log);
  metrics.add({
    collect(to) {
      for (const outcome of OUTCOMES)
        to.number("sluice_agent_requests_total", [outcome], functions.counts[outcome]);
    },
  });
  const { endpoints } = config.agent_functions;
  if (endpoints.length === 0) {
    return () => {
      const answers = new Answers({ store, id, hostname: hostname(), functions, clock, log });
      scope.add("answers", () => answers.close());
    };
  }
  const connect = endpoints.map((endpoint) =>
    connectionTo(endpoint, process, config, group, functions),
  );
  return () => {
    for (const each of connect) each();
  };
}

/** Pings of an idle connection, and the time after which an unanswered one ends it. */
const CHANNEL = { "grpc.keepalive_time_ms": 20_000, "grpc.keepalive_timeout_ms": 10_000 } as const;
/** The default port of controllers (`server.listener.addr`). */
const CONTROLLER_PORT = 8080;

/** Reads the TLS files, and returns a function that connects. */
function connectionTo(
  endpoint: string,
  process: SluiceProcess,
  { agent_functions, client: { proxy } }: Config,
  group: JoinedGroup,
  functions: FunctionRunner,
): () => void {
  const { clock, chance, env, health, scope } = process;
  const log = process.log.child("requests");
  const { token, client: settings } = agent_functions;
  const { client, address } = grpcServer({
    endpoint,
    defaultPort: CONTROLLER_PORT,
    settings: settings.grpc,
    proxy,
    env,
    clock,
    log,
    key: "agent_functions.endpoints",
    tlsKey: "agent_functions.client.grpc.tls",
    channel: CHANNEL,
  });
  const status = health.root.at("system", "controllers").at("endpoint", address);
  let connected: boolean | undefined;
  return () => {
    const outbound = new Outbound({
      client,
      metadata: token === "" ? {} : { authorization: `Bearer ${token}` },
      settings: settings.grpc,
      self: () => group.self ?? fail(),
      functions,
      clock,
      chance,
      state(fault) {
        if (fault === undefined) {
          status.ok("connected");
          log.info(
            { address },
            `connected to the controller at ${address}, which may ask this agent`,
          );
        } else {
          status.fail(fault.message);
          if (connected !== false)
            log.warn(
              { address },
              `no connection to the controller at ${address}: ${fault.message}`,
            );
        }
        connected = fault === undefined;
      },
    });
    scope.add("connection to a controller", () => outbound.close());
  };
}

function fail(): never {
  throw new Fault("INTERNAL", "the agent has not announced itself");
}
