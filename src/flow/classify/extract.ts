// Extractors. Each reads one text from a request: undefined if the request has none, Unreadable if it cannot be read.

import type { HttpAttributes } from "../flow.ts";
import type { ExtractorRule } from "../rules.ts";
import { compileAddress, compileAttribute, type Read } from "./attribute.ts";
import { fieldOf, isFormType, queryOf } from "./formats/form.ts";
import { type Json, parseJson } from "./formats/json.ts";
import { parsePointer } from "./formats/pointer.ts";
import { tokenPayload } from "./formats/token.ts";
import { compileTemplates } from "./template.ts";
import { isUnreadable, MALFORMED, type Unreadable } from "./unreadable.ts";

export type Extract = (request: RequestReader) => string | Unreadable | undefined;

/** Reads one request for all classifiers of a check, so that a document is parsed once for several labels. */
export class RequestReader {
  readonly http: HttpAttributes;
  readonly #documents = new Map<string, Json | Unreadable | undefined>();

  constructor(http: HttpAttributes) {
    this.http = http;
  }

  /** The JSON document in `text`, parsed once per `name`; undefined when `text` is absent or empty. */
  document(
    name: string,
    text: () => string | Unreadable | undefined,
  ): Json | Unreadable | undefined {
    if (this.#documents.has(name)) return this.#documents.get(name);
    const source = text();
    const unparsed = typeof source === "string" && source !== "";
    const document = unparsed ? parseJson(source) : source || undefined;
    this.#documents.set(name, document);
    return document;
  }
}

/** Throws a Fault with INVALID_ARGUMENT when an attribute path, pointer or template is malformed. */
export function compileExtractor(rule: ExtractorRule): Extract {
  switch (rule.kind) {
    case "from":
      return attribute(compileAttribute(rule.from));
    case "address":
      return attribute(compileAddress(rule));
    case "json": {
      const read = compileAttribute(rule.from);
      return jsonMember(`json ${rule.from}`, read, rule.pointer);
    }
    case "form":
      return attribute(formField(rule.from, rule.name));
    case "jwt": {
      const read = compileAttribute(rule.from);
      const payload: Read = (http) => {
        const token = read(http);
        return typeof token === "string" && token !== "" ? tokenPayload(token) : token || undefined;
      };
      return jsonMember(`jwt ${rule.from}`, payload, rule.pointer);
    }
    case "path_templates": {
      const match = compileTemplates(rule.templates);
      return ({ http }) => match(http.path);
    }
  }
}

function attribute(read: Read): Extract {
  return ({ http }) => read(http);
}

/** Reads a field of the form in an attribute; of a path, from its query. A body of another type or encoding is unreadable. */
function formField(from: string, name: string): Read {
  const read = compileAttribute(from);
  const inBody = from === "request.http.body";
  const inQuery = from === "request.http.path";
  return (http) => {
    const text = read(http);
    if (typeof text !== "string" || text === "") return text || undefined;
    if (inBody && !isFormType(http.header("content-type"), http.header("content-encoding")))
      return MALFORMED;
    return fieldOf(inQuery ? queryOf(text) : text, name);
  };
}

function jsonMember(name: string, read: Read, pointer: string): Extract {
  const segments = parsePointer(pointer);
  return (request) => {
    const document = request.document(name, () => read(request.http));
    return isUnreadable(document) ? document : document?.text(segments);
  };
}
