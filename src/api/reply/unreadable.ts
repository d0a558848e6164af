// Errors about a body that is not JSON name the header that explains it, such as content-encoding. Such a header alone never
// refuses a check, because gateways forward the headers of their own clients.

import { isUtf8 } from "node:buffer";
import { Fault } from "#base/fault.ts";
import type { HttpHandler, HttpRequest } from "#base/handler.ts";

/** Wraps a handler, so that its faults about a body that is not JSON name the header that explains it. */
export function explainingUnreadable(handle: HttpHandler): HttpHandler {
  return (request, call) => {
    try {
      const answer = handle(request, call);
      if (!(answer instanceof Promise)) return answer;
      return answer.catch((thrown: unknown) => {
        throw explained(thrown, request);
      });
    } catch (thrown) {
      throw explained(thrown, request);
    }
  };
}

const UTF8_CHARSET = /^"?(?:utf-?8|us-ascii)"?$/i;

/** Values of headers are the caller's and are not repeated. */
function explained(thrown: unknown, { body, headers }: HttpRequest): unknown {
  if (!(thrown instanceof Fault) || thrown.code !== "INVALID_ARGUMENT") return thrown;
  const encoding = String(headers["content-encoding"] ?? "identity").trim();
  const [, charset] = /;\s*charset=([^;\s]+)/i.exec(String(headers["content-type"] ?? "")) ?? [];
  const isCompressed = encoding.toLowerCase() !== "identity";
  const isRecoded = charset !== undefined && !UTF8_CHARSET.test(charset);
  if ((!isCompressed && !isRecoded) || isJson(body)) return thrown;
  const wanted = isCompressed
    ? "JSON that is not compressed, got a body that is, as its content-encoding says"
    : "JSON in UTF-8, got a body in the other charset that its content-type names";
  return new Fault("INVALID_ARGUMENT", `the body: wanted ${wanted}`, { http: 415 });
}

function isJson(body: Uint8Array): boolean {
  if (!isUtf8(body)) return false;
  try {
    JSON.parse(new TextDecoder().decode(body));
    return true;
  } catch {
    return false;
  }
}
