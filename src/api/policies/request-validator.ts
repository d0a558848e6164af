// Validates requests of the policy service by the rules in its proto file (protoc-gen-validate), and holds the
// descriptors of its methods. The generated code and its library are large, so they are imported with the first request.

import type { DescMessage, DescMethod, Message } from "@bufbuild/protobuf";
import type { Json } from "./request.ts";

interface Loaded {
  readonly validate: typeof import("#wire/protobuf/validation.ts").validate;
  /** By name of the gRPC method. */
  readonly methods: ReadonlyMap<string, DescMethod>;
  readonly create: typeof import("@bufbuild/protobuf").create;
}

export class PolicyRequestValidator {
  readonly #service: string;
  #loading: Promise<Loaded> | undefined;

  /** `service` is the full name of the gRPC service. */
  constructor(service: string) {
    this.#service = service;
  }

  /** The descriptor of a method. */
  async method(rpc: string): Promise<DescMethod> {
    const found = (await this.#load()).methods.get(rpc);
    if (found === undefined) throw new Error(`${this.#service}/${rpc} has no descriptor`);
    return found;
  }

  /** @throws Fault INVALID_ARGUMENT that names each field that breaks a rule, what was wanted and what was got */
  async validateMessage(schema: DescMessage, message: Message): Promise<void> {
    const { validate } = await this.#load();
    validate(schema, message);
  }

  /**
   * Validates the fields of a request in JSON (proto names), but not what is inside its message fields: documents
   * and configurations have readers of their own, with messages that fit the text. Members of a wrong type pass for
   * the same reason. Throws as `validateMessage`.
   */
  async validateJson(rpc: string, request: Json): Promise<void> {
    const { input: schema } = await this.method(rpc);
    const { validate, create } = await this.#load();
    const fields = schema.fields.flatMap((field) => {
      const value = request[field.name] ?? undefined;
      if (field.fieldKind === "message" && value !== undefined) return [[field.localName, {}]];
      return field.fieldKind === "scalar" && typeof value === "string"
        ? [[field.localName, value]]
        : [];
    });
    validate(schema, create(schema, Object.fromEntries(fields)));
  }

  #load(): Promise<Loaded> {
    this.#loading ??= load(this.#service);
    return this.#loading;
  }
}

async function load(name: string): Promise<Loaded> {
  const [{ create }, { registry }, { validate }] = await Promise.all([
    import("@bufbuild/protobuf"),
    import("#wire/protobuf/descriptors.ts"),
    import("#wire/protobuf/validation.ts"),
  ]);
  const service = registry.getService(name);
  const methods = new Map(service?.methods.map((method) => [method.name, method] as const));
  return { validate, methods, create };
}
