// The TypeScript shapes of all messages, derived from the generated descriptors, as `messages.ts` takes
// and gives them: plain objects, camelCase, the arms of a oneof side by side. Types only: nothing of the
// generated code is loaded at run time.

import type { JsonObject, Message } from "@bufbuild/protobuf";
import type { GenMessage } from "@bufbuild/protobuf/codegenv2";
import type * as check from "./gen/aperture/flowcontrol/check/v1/check_pb.ts";
import type * as checkHttp from "./gen/aperture/flowcontrol/checkhttp/v1/checkhttp_pb.ts";
import type * as info from "./gen/aperture/info/v1/info_pb.ts";
import type * as autoscale from "./gen/aperture/policy/language/v1/autoscale_pb.ts";
import type * as flowControl from "./gen/aperture/policy/language/v1/flowcontrol_pb.ts";
import type * as labelMatcher from "./gen/aperture/policy/language/v1/label_matcher_pb.ts";
import type * as policy from "./gen/aperture/policy/language/v1/policy_pb.ts";
import type * as ports from "./gen/aperture/policy/language/v1/ports_pb.ts";
import type * as query from "./gen/aperture/policy/language/v1/query_pb.ts";
import type * as stdComponents from "./gen/aperture/policy/language/v1/std_components_pb.ts";
import type * as telemetryCollector from "./gen/aperture/policy/language/v1/telemetry_collector_pb.ts";
import type * as syncClassifier from "./gen/aperture/policy/sync/v1/classifier_pb.ts";
import type * as syncCommon from "./gen/aperture/policy/sync/v1/common_attributes_pb.ts";
import type * as syncConcurrencyLimiter from "./gen/aperture/policy/sync/v1/concurrency_limiter_pb.ts";
import type * as syncConcurrencyScheduler from "./gen/aperture/policy/sync/v1/concurrency_scheduler_pb.ts";
import type * as syncFluxMeter from "./gen/aperture/policy/sync/v1/flux_meter_pb.ts";
import type * as syncInfraMeter from "./gen/aperture/policy/sync/v1/infra_meter_pb.ts";
import type * as syncLoadScheduler from "./gen/aperture/policy/sync/v1/load_scheduler_pb.ts";
import type * as syncPodScaler from "./gen/aperture/policy/sync/v1/pod_scaler_pb.ts";
import type * as syncPolicy from "./gen/aperture/policy/sync/v1/policy_pb.ts";
import type * as syncQuotaScheduler from "./gen/aperture/policy/sync/v1/quota_scheduler_pb.ts";
import type * as syncRateLimiter from "./gen/aperture/policy/sync/v1/rate_limiter_pb.ts";
import type * as syncSampler from "./gen/aperture/policy/sync/v1/sampler_pb.ts";
import type * as syncCollector from "./gen/aperture/policy/sync/v1/telemetry_collector_pb.ts";
import type * as syncTick from "./gen/aperture/policy/sync/v1/tick_pb.ts";
import type * as status from "./gen/aperture/status/v1/status_pb.ts";

/** All messages that a generated file describes. */
type In<File> = {
  [Key in keyof File]: File[Key] extends GenMessage<infer M> ? M : never;
}[keyof File];

type AnyMessage =
  | In<typeof check>
  | In<typeof checkHttp>
  | In<typeof info>
  | In<typeof status>
  | In<typeof autoscale>
  | In<typeof flowControl>
  | In<typeof labelMatcher>
  | In<typeof policy>
  | In<typeof ports>
  | In<typeof query>
  | In<typeof stdComponents>
  | In<typeof telemetryCollector>
  | In<typeof syncClassifier>
  | In<typeof syncCommon>
  | In<typeof syncConcurrencyLimiter>
  | In<typeof syncConcurrencyScheduler>
  | In<typeof syncFluxMeter>
  | In<typeof syncInfraMeter>
  | In<typeof syncLoadScheduler>
  | In<typeof syncPodScaler>
  | In<typeof syncPolicy>
  | In<typeof syncQuotaScheduler>
  | In<typeof syncRateLimiter>
  | In<typeof syncSampler>
  | In<typeof syncCollector>
  | In<typeof syncTick>;

/** Full name of a message, such as `aperture.policy.sync.v1.RateLimiterWrapper`. */
export type MessageName = AnyMessage["$typeName"];

type Named<Name extends MessageName> = Extract<AnyMessage, { readonly $typeName: Name }>;

/** What `decode` gives: every scalar, list and map is there; an unset message is `null`; an unset arm of a oneof is absent. */
export type Decoded<Name extends MessageName> = DecodedMessage<Named<Name>>;

/** What `encode` takes: anything may be left out or `null`; unset and default are the same on the wire, arms of a oneof excepted. */
export type Encodable<Name extends MessageName> = EncodableMessage<Named<Name>>;

/** `google.protobuf.Value` and `Struct` as their own fields. */
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
