// Extractors: each turns a request into one text, or undefined where there is none.

import type { HttpAttributes } from "../flow.ts";
import type { ExtractorRule } from "../rules.ts";
import { compileAddress, compileAttribute, type Read } from "./attribute.ts";
import { type Json, parseJson } from "./json.ts";
import { parsePointer } from "./pointer.ts";
import { compileTemplates } from "./template.ts";
import { tokenPayload } from "./token.ts";

export type Extract = (reading: Reading) => string | undefined;

/** One request as classifiers read it: documents that several labels read are parsed once. */
export class Reading {
  readonly http: HttpAttributes;
  readonly #documents = new Map<string, Json | undefined>();

  constructor(http: HttpAttributes) {
    this.http = http;
  }

  /** `name` stands for `text` within this reading: the same name is parsed once. */
  document(name: string, text: () => string | undefined): Json | undefined {
    if (this.#documents.has(name)) return this.#documents.get(name);
    const source = text();
    const document = source === undefined ? undefined : parseJson(source);
    this.#documents.set(name, document);
    return document;
  }
}

/** Faults with INVALID_ARGUMENT when a path, pointer or template is malformed. */
export function compileExtractor(rule: ExtractorRule): Extract {
  switch (rule.kind) {
    case "from":
      return over(compileAttribute(rule.from));
    case "address":
      return over(compileAddress(rule.from));
    case "json": {
      const read = compileAttribute(rule.from);
      return pointed(`json ${rule.from}`, read, rule.pointer);
    }
    case "jwt": {
      const read = compileAttribute(rule.from);
      const payload: Read = (http) => {
        const token = read(http);
        return token === undefined ? undefined : tokenPayload(token);
      };
      return pointed(`jwt ${rule.from}`, payload, rule.pointer);
    }
    case "path_templates": {
      const match = compileTemplates(rule.templates);
      return ({ http }) => match(http.path);
    }
  }
}

function over(read: Read): Extract {
  return ({ http }) => read(http);
}

function pointed(name: string, read: Read, pointer: string): Extract {
  const segments = parsePointer(pointer);
  return (reading) => reading.document(name, () => read(reading.http))?.text(segments);
}
