// The HTTP routes that show and change the levels of the log while the process runs.

import { Fault } from "#base/fault.ts";
import type { HttpReply, HttpRequest, Route } from "#base/handler.ts";
import type { LogLevels } from "./levels.ts";

const PATH = "/v1/log/levels";

/** An ignored parameter would look as if it had an effect. @throws Fault INVALID_ARGUMENT that names it */
function refuseIgnored({ query }: HttpRequest, known: readonly string[]): void {
  const unknown = [...new Set(query.keys())].filter((name) => !known.includes(name));
  if (unknown.length === 0 && query.size > known.length) {
    const [name = ""] = known;
    throw new Fault(
      "INVALID_ARGUMENT",
      `wanted ${name} once in the query, got it ${query.size} times`,
    );
  }
  if (unknown.length === 0) return;
  const wanted =
    known.length === 0 ? "no query parameters" : `only ${known.join(", ")} in the query`;
  throw new Fault("INVALID_ARGUMENT", `wanted ${wanted}, got ${unknown.join(", ")}`);
}

/** Every route answers with the levels that are then in force. */
export function logRoutes(levels: Pick<LogLevels, "current" | "change">): readonly Route[] {
  const reply = (): HttpReply => ({
    status: 200,
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ levels: levels.current }),
  });
  const route = (
    method: Route["method"],
    path: string,
    about: string,
    act: (request: HttpRequest) => void,
  ): Route => {
    const handle = (request: HttpRequest) => {
      refuseIgnored(request, method === "PUT" ? ["level"] : []);
      act(request);
      return reply();
    };
    return { method, path, about, access: "administration", handle };
  };
  const levelIn = ({ query }: HttpRequest) => query.get("level") ?? "";
  const one = `${PATH}/{component}`;
  return [
    route("GET", PATH, "The level of each component's log lines.", () => undefined),
    route("PUT", PATH, "Sets all components to ?level=L until the process ends.", (request) =>
      levels.change(undefined, levelIn(request)),
    ),
    route("DELETE", PATH, "Sets all components back to the configured levels.", () =>
      levels.change(undefined, undefined),
    ),
    route("PUT", one, "Sets one component to ?level=L until the process ends.", (request) =>
      levels.change(request.params["component"], levelIn(request)),
    ),
    route("DELETE", one, "Sets one component back to the level of the others.", (request) =>
      levels.change(request.params["component"], undefined),
    ),
  ];
}
