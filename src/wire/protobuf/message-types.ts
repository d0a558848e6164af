// TypeScript types of all messages as `messages.ts` encodes and decodes them: plain objects in camelCase, with the
// members of a oneof side by side. Derived from the generated types.

import type { JsonObject, Message } from "@bufbuild/protobuf";
import type { MessagesByName } from "#gen/messages-by-name.ts";

/** Full name of a message, such as `aperture.policy.sync.v1.RateLimiterWrapper`. */
export type MessageName = keyof MessagesByName;

// Mapped types, because the compiler works out each entry once. It would work out a generic type again at each use.
type DecodedByName = { readonly [Name in MessageName]: DecodedMessage<MessagesByName[Name]> };
type EncodableByName = { readonly [Name in MessageName]: EncodableMessage<MessagesByName[Name]> };

/**
 * The result of `decode`. Scalars, lists and maps are always present, an unset message is `null`, and unset members of
 * a oneof are absent.
 */
export type Decoded<Name extends MessageName> = DecodedByName[Name];

/**
 * The input of `encode`. Anything may be absent or `null`. Except in a oneof, an unset field and its default value are
 * the same on the wire.
 */
export type Encodable<Name extends MessageName> = EncodableByName[Name];

/** `google.protobuf.Value` and `Struct` with the fields of their messages. */
export interface PlainValue {
  readonly nullValue?: number | null;
  readonly numberValue?: number | null;
  readonly stringValue?: string | null;
  readonly boolValue?: boolean | null;
  readonly structValue?: PlainStruct | null;
  readonly listValue?: { readonly values?: readonly PlainValue[] | null } | null;
}
export interface PlainStruct {
  readonly fields?: Readonly<Record<string, PlainValue>> | null;
}

type Oneof = { readonly case: string | undefined; readonly value?: unknown };
type OneofKey<M> = {
  [Key in keyof M]-?: NonNullable<M[Key]> extends Oneof ? Key : never;
}[keyof M];
type FieldKey<M> = Exclude<keyof M, OneofKey<M> | "$typeName" | "$unknown">;
type Arm<M> = Extract<M[OneofKey<M>], { readonly case: string; readonly value: unknown }>;
type OptionalKey<M> = {
  [Key in FieldKey<M>]-?: undefined extends M[Key] ? Key : never;
}[FieldKey<M>];

/** True for `google.protobuf.Struct`, false for maps, which are narrower. */
type IsStruct<T> = T extends JsonObject ? (JsonObject extends T ? true : false) : false;

type DecodedValue<T> = T extends string | number | bigint | boolean | Uint8Array
  ? T
  : T extends readonly (infer Item)[]
    ? readonly DecodedValue<Item>[]
    : T extends Message
      ? DecodedMessage<T>
      : IsStruct<T> extends true
        ? PlainStruct
        : { readonly [Key in keyof T]: DecodedValue<T[Key]> };

type DecodedMessage<M> = {
  readonly [Key in Exclude<FieldKey<M>, OptionalKey<M>>]: DecodedValue<M[Key]>;
} & {
  readonly [Key in OptionalKey<M>]: DecodedValue<NonNullable<M[Key]>> | null;
} & {
  readonly [Case in Arm<M>["case"]]?: DecodedValue<
    Extract<Arm<M>, { readonly case: Case }>["value"]
  >;
};

type EncodableValue<T> = T extends bigint
  ? bigint | number
  : T extends string | number | boolean | Uint8Array
    ? T
    : T extends readonly (infer Item)[]
      ? readonly EncodableValue<Item>[]
      : T extends Message
        ? EncodableMessage<T>
        : IsStruct<T> extends true
          ? PlainStruct
          : { readonly [Key in keyof T]: EncodableValue<T[Key]> };

type EncodableMessage<M> = {
  readonly [Key in FieldKey<M>]?: EncodableValue<NonNullable<M[Key]>> | null | undefined;
} & {
  readonly [Case in Arm<M>["case"]]?:
    | EncodableValue<Extract<Arm<M>, { readonly case: Case }>["value"]>
    | null
    | undefined;
};
