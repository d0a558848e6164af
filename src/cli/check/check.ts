// `sluice check`: asks a running agent whether one request may pass. The request is given as flags or as JSON; the
// decision and its reasons are printed in words or as JSON.

import { loadConfig } from "#config/load.ts";
import { EXIT } from "#runtime/life/run.ts";
import {
  type Address,
  addressOfFlag,
  configuredAddress,
  readTlsFiles,
  wantsTls,
} from "../server.ts";
import type { Command } from "../subcommands.ts";
import { paintFor, type Terminal } from "../terminal.ts";
import { ask } from "./ask.ts";
import { requestFrom, requestOfFlags } from "./request.ts";
import { replyText } from "./words.ts";

export const checkCommand: Command<"check"> = async ({ flags, operands }, terminal) => {
  const { address, json, ca, cert, key, ...ofRequest } = flags;
  const tls = await readTlsFiles({ ca, cert, key });
  const secure = wantsTls(tls);
  const at =
    address === undefined
      ? addressOfAgent(terminal, secure)
      : addressOfFlag("--address", address, secure ? "https" : "http");
  const request =
    operands.length === 0
      ? requestOfFlags(ofRequest)
      : await requestFrom(operands, Object.keys(ofRequest), terminal);
  const reply = await ask({ ...at, tls }, request);
  const text = () => replyText(reply, paintFor(terminal, "out"));
  terminal.out(json ? `${JSON.stringify(reply)}\n` : text());
  return reply.check_response.decision_type === "DECISION_TYPE_ACCEPTED"
    ? EXIT.clean
    : EXIT.refused;
};

/** The address at which an agent with the same configuration listens. */
function addressOfAgent({ env }: Terminal, secure: boolean): Address {
  const { listener, tls } = loadConfig("agent", { env }).config.server;
  return configuredAddress("--address", listener.addr, secure || tls.enabled ? "https" : "http");
}
