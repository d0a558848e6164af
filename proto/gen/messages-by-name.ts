// Types of all messages, by full name, as @bufbuild/protobuf represents them. Generated; do not edit.

import type { JsonObject, Message } from "@bufbuild/protobuf";
import type { Any, Duration, Timestamp } from "@bufbuild/protobuf/wkt";

export interface MessagesByName {
  readonly "aperture.autoscale.kubernetes.controlpoints.v1.AutoScaleKubernetesControlPoint": Message<"aperture.autoscale.kubernetes.controlpoints.v1.AutoScaleKubernetesControlPoint"> & {
    apiVersion: string;
    kind: string;
    namespace: string;
    name: string;
  };
  readonly "aperture.autoscale.kubernetes.controlpoints.v1.AutoScaleKubernetesControlPoints": Message<"aperture.autoscale.kubernetes.controlpoints.v1.AutoScaleKubernetesControlPoints"> & {
    autoScaleKubernetesControlPoints: MessagesByName["aperture.autoscale.kubernetes.controlpoints.v1.AutoScaleKubernetesControlPoint"][];
  };
  readonly "aperture.cmd.v1.AgentDetails": Message<"aperture.cmd.v1.AgentDetails"> & {
    address: string;
    hostname: string;
    agentGroup: string;
    id: string;
    services: { [key: string]: string };
    reachedBy: string;
  };
  readonly "aperture.cmd.v1.GlobalAutoScaleControlPoint": Message<"aperture.cmd.v1.GlobalAutoScaleControlPoint"> & {
    autoScaleControlPoint?: MessagesByName["aperture.autoscale.kubernetes.controlpoints.v1.AutoScaleKubernetesControlPoint"] | undefined;
    agentGroup: string;
  };
  readonly "aperture.cmd.v1.GlobalCacheDeleteRequest": Message<"aperture.cmd.v1.GlobalCacheDeleteRequest"> & {
    request?: MessagesByName["aperture.flowcontrol.check.v1.CacheDeleteRequest"] | undefined;
    agentGroup: string;
  };
  readonly "aperture.cmd.v1.GlobalCacheLookupRequest": Message<"aperture.cmd.v1.GlobalCacheLookupRequest"> & {
    request?: MessagesByName["aperture.flowcontrol.check.v1.CacheLookupRequest"] | undefined;
    agentGroup: string;
  };
  readonly "aperture.cmd.v1.GlobalCacheUpsertRequest": Message<"aperture.cmd.v1.GlobalCacheUpsertRequest"> & {
    request?: MessagesByName["aperture.flowcontrol.check.v1.CacheUpsertRequest"] | undefined;
    agentGroup: string;
  };
  readonly "aperture.cmd.v1.GlobalFlowControlPoint": Message<"aperture.cmd.v1.GlobalFlowControlPoint"> & {
    flowControlPoint?: MessagesByName["aperture.flowcontrol.controlpoints.v1.FlowControlPoint"] | undefined;
    agentGroup: string;
  };
  readonly "aperture.cmd.v1.GlobalService": Message<"aperture.cmd.v1.GlobalService"> & {
    name: string;
    agentGroup: string;
  };
  readonly "aperture.cmd.v1.ListAgentsRequest": Message<"aperture.cmd.v1.ListAgentsRequest"> & {
    agentGroup: string;
  };
  readonly "aperture.cmd.v1.ListAgentsResponse": Message<"aperture.cmd.v1.ListAgentsResponse"> & {
    agents: string[];
    details: MessagesByName["aperture.cmd.v1.AgentDetails"][];
  };
  readonly "aperture.cmd.v1.ListAutoScaleControlPointsAgentResponse": Message<"aperture.cmd.v1.ListAutoScaleControlPointsAgentResponse"> & {
    autoScaleControlPoints?: MessagesByName["aperture.autoscale.kubernetes.controlpoints.v1.AutoScaleKubernetesControlPoints"] | undefined;
    agentGroup: string;
  };
  readonly "aperture.cmd.v1.ListAutoScaleControlPointsControllerResponse": Message<"aperture.cmd.v1.ListAutoScaleControlPointsControllerResponse"> & {
    globalAutoScaleControlPoints: MessagesByName["aperture.cmd.v1.GlobalAutoScaleControlPoint"][];
    errorsCount: number;
  };
  readonly "aperture.cmd.v1.ListAutoScaleControlPointsRequest": Message<"aperture.cmd.v1.ListAutoScaleControlPointsRequest">;
  readonly "aperture.cmd.v1.ListDiscoveryEntitiesAgentResponse": Message<"aperture.cmd.v1.ListDiscoveryEntitiesAgentResponse"> & {
    entities: { [key: string]: MessagesByName["aperture.discovery.entities.v1.Entity"] };
  };
  readonly "aperture.cmd.v1.ListDiscoveryEntitiesControllerResponse": Message<"aperture.cmd.v1.ListDiscoveryEntitiesControllerResponse"> & {
    entities?: MessagesByName["aperture.cmd.v1.ListDiscoveryEntitiesAgentResponse"] | undefined;
    errorsCount: number;
  };
  readonly "aperture.cmd.v1.ListDiscoveryEntitiesRequest": Message<"aperture.cmd.v1.ListDiscoveryEntitiesRequest"> & {
    agentGroup: string;
  };
  readonly "aperture.cmd.v1.ListDiscoveryEntityAgentResponse": Message<"aperture.cmd.v1.ListDiscoveryEntityAgentResponse"> & {
    entity?: MessagesByName["aperture.discovery.entities.v1.Entity"] | undefined;
  };
  readonly "aperture.cmd.v1.ListDiscoveryEntityRequest": Message<"aperture.cmd.v1.ListDiscoveryEntityRequest"> & {
    by: { case: "ipAddress"; value: string } | { case: "name"; value: string } | { case: undefined; value?: undefined };
  };
  readonly "aperture.cmd.v1.ListFlowControlPointsAgentResponse": Message<"aperture.cmd.v1.ListFlowControlPointsAgentResponse"> & {
    flowControlPoints?: MessagesByName["aperture.flowcontrol.controlpoints.v1.FlowControlPoints"] | undefined;
    agentGroup: string;
  };
  readonly "aperture.cmd.v1.ListFlowControlPointsControllerResponse": Message<"aperture.cmd.v1.ListFlowControlPointsControllerResponse"> & {
    globalFlowControlPoints: MessagesByName["aperture.cmd.v1.GlobalFlowControlPoint"][];
    errorsCount: number;
  };
  readonly "aperture.cmd.v1.ListFlowControlPointsRequest": Message<"aperture.cmd.v1.ListFlowControlPointsRequest">;
  readonly "aperture.cmd.v1.ListServicesAgentResponse": Message<"aperture.cmd.v1.ListServicesAgentResponse"> & {
    services: string[];
    agentGroup: string;
  };
  readonly "aperture.cmd.v1.ListServicesControllerResponse": Message<"aperture.cmd.v1.ListServicesControllerResponse"> & {
    services: MessagesByName["aperture.cmd.v1.GlobalService"][];
    errorsCount: number;
  };
  readonly "aperture.cmd.v1.ListServicesRequest": Message<"aperture.cmd.v1.ListServicesRequest">;
  readonly "aperture.cmd.v1.PreviewFlowLabelsControllerResponse": Message<"aperture.cmd.v1.PreviewFlowLabelsControllerResponse"> & {
    response?: MessagesByName["aperture.flowcontrol.preview.v1.PreviewFlowLabelsResponse"] | undefined;
  };
  readonly "aperture.cmd.v1.PreviewFlowLabelsRequest": Message<"aperture.cmd.v1.PreviewFlowLabelsRequest"> & {
    agentGroup: string;
    request?: MessagesByName["aperture.flowcontrol.preview.v1.PreviewRequest"] | undefined;
  };
  readonly "aperture.cmd.v1.PreviewHTTPRequestsControllerResponse": Message<"aperture.cmd.v1.PreviewHTTPRequestsControllerResponse"> & {
    response?: MessagesByName["aperture.flowcontrol.preview.v1.PreviewHTTPRequestsResponse"] | undefined;
  };
  readonly "aperture.cmd.v1.PreviewHTTPRequestsRequest": Message<"aperture.cmd.v1.PreviewHTTPRequestsRequest"> & {
    agentGroup: string;
    request?: MessagesByName["aperture.flowcontrol.preview.v1.PreviewRequest"] | undefined;
  };
  readonly "aperture.discovery.entities.v1.Entities": Message<"aperture.discovery.entities.v1.Entities"> & {
    entitiesByIpAddress?: MessagesByName["aperture.discovery.entities.v1.Entities.Entities"] | undefined;
    entitiesByName?: MessagesByName["aperture.discovery.entities.v1.Entities.Entities"] | undefined;
  };
  readonly "aperture.discovery.entities.v1.Entities.Entities": Message<"aperture.discovery.entities.v1.Entities.Entities"> & {
    entities: { [key: string]: MessagesByName["aperture.discovery.entities.v1.Entity"] };
  };
  readonly "aperture.discovery.entities.v1.Entity": Message<"aperture.discovery.entities.v1.Entity"> & {
    uid: string;
    ipAddress: string;
    name: string;
    namespace: string;
    nodeName: string;
    services: string[];
  };
  readonly "aperture.discovery.entities.v1.GetEntityByIPAddressRequest": Message<"aperture.discovery.entities.v1.GetEntityByIPAddressRequest"> & {
    ipAddress: string;
  };
  readonly "aperture.discovery.entities.v1.GetEntityByNameRequest": Message<"aperture.discovery.entities.v1.GetEntityByNameRequest"> & {
    name: string;
  };
  readonly "aperture.flowcontrol.check.v1.CacheDeleteRequest": Message<"aperture.flowcontrol.check.v1.CacheDeleteRequest"> & {
    controlPoint: string;
    resultCacheKey: string;
    globalCacheKeys: string[];
  };
  readonly "aperture.flowcontrol.check.v1.CacheDeleteResponse": Message<"aperture.flowcontrol.check.v1.CacheDeleteResponse"> & {
    resultCacheResponse?: MessagesByName["aperture.flowcontrol.check.v1.KeyDeleteResponse"] | undefined;
    globalCacheResponses: { [key: string]: MessagesByName["aperture.flowcontrol.check.v1.KeyDeleteResponse"] };
  };
  readonly "aperture.flowcontrol.check.v1.CacheEntry": Message<"aperture.flowcontrol.check.v1.CacheEntry"> & {
    key: string;
    value: Uint8Array;
    ttl?: Duration | undefined;
  };
  readonly "aperture.flowcontrol.check.v1.CacheLookupRequest": Message<"aperture.flowcontrol.check.v1.CacheLookupRequest"> & {
    controlPoint: string;
    resultCacheKey: string;
    globalCacheKeys: string[];
  };
  readonly "aperture.flowcontrol.check.v1.CacheLookupResponse": Message<"aperture.flowcontrol.check.v1.CacheLookupResponse"> & {
    resultCacheResponse?: MessagesByName["aperture.flowcontrol.check.v1.KeyLookupResponse"] | undefined;
    globalCacheResponses: { [key: string]: MessagesByName["aperture.flowcontrol.check.v1.KeyLookupResponse"] };
  };
  readonly "aperture.flowcontrol.check.v1.CacheUpsertRequest": Message<"aperture.flowcontrol.check.v1.CacheUpsertRequest"> & {
    controlPoint: string;
    resultCacheEntry?: MessagesByName["aperture.flowcontrol.check.v1.CacheEntry"] | undefined;
    globalCacheEntries: { [key: string]: MessagesByName["aperture.flowcontrol.check.v1.CacheEntry"] };
  };
  readonly "aperture.flowcontrol.check.v1.CacheUpsertResponse": Message<"aperture.flowcontrol.check.v1.CacheUpsertResponse"> & {
    resultCacheResponse?: MessagesByName["aperture.flowcontrol.check.v1.KeyUpsertResponse"] | undefined;
    globalCacheResponses: { [key: string]: MessagesByName["aperture.flowcontrol.check.v1.KeyUpsertResponse"] };
  };
  readonly "aperture.flowcontrol.check.v1.CheckRequest": Message<"aperture.flowcontrol.check.v1.CheckRequest"> & {
    controlPoint: string;
    labels: { [key: string]: string };
    rampMode: boolean;
    cacheLookupRequest?: MessagesByName["aperture.flowcontrol.check.v1.CacheLookupRequest"] | undefined;
    expectEnd: boolean;
  };
  readonly "aperture.flowcontrol.check.v1.CheckResponse": Message<"aperture.flowcontrol.check.v1.CheckResponse"> & {
    start?: Timestamp | undefined;
    end?: Timestamp | undefined;
    services: string[];
    controlPoint: string;
    flowLabelKeys: string[];
    telemetryFlowLabels: { [key: string]: string };
    decisionType: number;
    rejectReason: number;
    classifierInfos: MessagesByName["aperture.flowcontrol.check.v1.ClassifierInfo"][];
    fluxMeterInfos: MessagesByName["aperture.flowcontrol.check.v1.FluxMeterInfo"][];
    limiterDecisions: MessagesByName["aperture.flowcontrol.check.v1.LimiterDecision"][];
    waitTime?: Duration | undefined;
    deniedResponseStatusCode: number;
    cacheLookupResponse?: MessagesByName["aperture.flowcontrol.check.v1.CacheLookupResponse"] | undefined;
    expectEnd: boolean;
    reservationId?: string | undefined;
  };
  readonly "aperture.flowcontrol.check.v1.ClassifierInfo": Message<"aperture.flowcontrol.check.v1.ClassifierInfo"> & {
    policyName: string;
    policyHash: string;
    classifierIndex: bigint;
    error: number;
    unreadable?: string | undefined;
  };
  readonly "aperture.flowcontrol.check.v1.FlowEndRequest": Message<"aperture.flowcontrol.check.v1.FlowEndRequest"> & {
    controlPoint: string;
    inflightRequests: MessagesByName["aperture.flowcontrol.check.v1.InflightRequestRef"][];
    reservationId: string;
    cost?: number | undefined;
    statusCode: number;
  };
  readonly "aperture.flowcontrol.check.v1.FlowEndResponse": Message<"aperture.flowcontrol.check.v1.FlowEndResponse"> & {
    tokenReturnStatuses: MessagesByName["aperture.flowcontrol.check.v1.TokenReturnStatus"][];
    settled?: boolean | undefined;
    settlementError?: string | undefined;
  };
  readonly "aperture.flowcontrol.check.v1.FluxMeterInfo": Message<"aperture.flowcontrol.check.v1.FluxMeterInfo"> & {
    fluxMeterName: string;
  };
  readonly "aperture.flowcontrol.check.v1.InflightRequestRef": Message<"aperture.flowcontrol.check.v1.InflightRequestRef"> & {
    policyName: string;
    policyHash: string;
    componentId: string;
    label: string;
    requestId: string;
    tokens: number;
  };
  readonly "aperture.flowcontrol.check.v1.KeyDeleteResponse": Message<"aperture.flowcontrol.check.v1.KeyDeleteResponse"> & {
    operationStatus: number;
    error: string;
  };
  readonly "aperture.flowcontrol.check.v1.KeyLookupResponse": Message<"aperture.flowcontrol.check.v1.KeyLookupResponse"> & {
    value: Uint8Array;
    lookupStatus: number;
    operationStatus: number;
    error: string;
  };
  readonly "aperture.flowcontrol.check.v1.KeyUpsertResponse": Message<"aperture.flowcontrol.check.v1.KeyUpsertResponse"> & {
    operationStatus: number;
    error: string;
  };
  readonly "aperture.flowcontrol.check.v1.LimiterDecision": Message<"aperture.flowcontrol.check.v1.LimiterDecision"> & {
    policyName: string;
    policyHash: string;
    componentId: string;
    dropped: boolean;
    reason: number;
    deniedResponseStatusCode: number;
    waitTime?: Duration | undefined;
    details: { case: "rateLimiterInfo"; value: MessagesByName["aperture.flowcontrol.check.v1.LimiterDecision.RateLimiterInfo"] } | { case: "loadSchedulerInfo"; value: MessagesByName["aperture.flowcontrol.check.v1.LimiterDecision.SchedulerInfo"] } | { case: "samplerInfo"; value: MessagesByName["aperture.flowcontrol.check.v1.LimiterDecision.SamplerInfo"] } | { case: "quotaSchedulerInfo"; value: MessagesByName["aperture.flowcontrol.check.v1.LimiterDecision.QuotaSchedulerInfo"] } | { case: "concurrencyLimiterInfo"; value: MessagesByName["aperture.flowcontrol.check.v1.LimiterDecision.ConcurrencyLimiterInfo"] } | { case: "concurrencySchedulerInfo"; value: MessagesByName["aperture.flowcontrol.check.v1.LimiterDecision.ConcurrencySchedulerInfo"] } | { case: undefined; value?: undefined };
    failureMode?: string | undefined;
    missingLabels?: string | undefined;
  };
  readonly "aperture.flowcontrol.check.v1.LimiterDecision.ConcurrencyLimiterInfo": Message<"aperture.flowcontrol.check.v1.LimiterDecision.ConcurrencyLimiterInfo"> & {
    label: string;
    tokensInfo?: MessagesByName["aperture.flowcontrol.check.v1.LimiterDecision.TokensInfo"] | undefined;
    requestId: string;
  };
  readonly "aperture.flowcontrol.check.v1.LimiterDecision.ConcurrencySchedulerInfo": Message<"aperture.flowcontrol.check.v1.LimiterDecision.ConcurrencySchedulerInfo"> & {
    label: string;
    workloadIndex: string;
    tokensInfo?: MessagesByName["aperture.flowcontrol.check.v1.LimiterDecision.TokensInfo"] | undefined;
    priority: number;
    requestId: string;
  };
  readonly "aperture.flowcontrol.check.v1.LimiterDecision.QuotaSchedulerInfo": Message<"aperture.flowcontrol.check.v1.LimiterDecision.QuotaSchedulerInfo"> & {
    label: string;
    workloadIndex: string;
    tokensInfo?: MessagesByName["aperture.flowcontrol.check.v1.LimiterDecision.TokensInfo"] | undefined;
    priority: number;
  };
  readonly "aperture.flowcontrol.check.v1.LimiterDecision.RateLimiterInfo": Message<"aperture.flowcontrol.check.v1.LimiterDecision.RateLimiterInfo"> & {
    label: string;
    tokensInfo?: MessagesByName["aperture.flowcontrol.check.v1.LimiterDecision.TokensInfo"] | undefined;
  };
  readonly "aperture.flowcontrol.check.v1.LimiterDecision.SamplerInfo": Message<"aperture.flowcontrol.check.v1.LimiterDecision.SamplerInfo"> & {
    label: string;
  };
  readonly "aperture.flowcontrol.check.v1.LimiterDecision.SchedulerInfo": Message<"aperture.flowcontrol.check.v1.LimiterDecision.SchedulerInfo"> & {
    workloadIndex: string;
    tokensInfo?: MessagesByName["aperture.flowcontrol.check.v1.LimiterDecision.TokensInfo"] | undefined;
    priority: number;
  };
  readonly "aperture.flowcontrol.check.v1.LimiterDecision.TokensInfo": Message<"aperture.flowcontrol.check.v1.LimiterDecision.TokensInfo"> & {
    remaining: number;
    current: number;
    consumed: number;
  };
  readonly "aperture.flowcontrol.check.v1.TokenReturnStatus": Message<"aperture.flowcontrol.check.v1.TokenReturnStatus"> & {
    inflightRequestRef?: MessagesByName["aperture.flowcontrol.check.v1.InflightRequestRef"] | undefined;
    returned: boolean;
    error: string;
  };
  readonly "aperture.flowcontrol.checkhttp.v1.CheckHTTPRequest": Message<"aperture.flowcontrol.checkhttp.v1.CheckHTTPRequest"> & {
    source?: MessagesByName["aperture.flowcontrol.checkhttp.v1.SocketAddress"] | undefined;
    destination?: MessagesByName["aperture.flowcontrol.checkhttp.v1.SocketAddress"] | undefined;
    request?: MessagesByName["aperture.flowcontrol.checkhttp.v1.CheckHTTPRequest.HttpRequest"] | undefined;
    controlPoint: string;
    rampMode: boolean;
    expectEnd: boolean;
  };
  readonly "aperture.flowcontrol.checkhttp.v1.CheckHTTPRequest.HttpRequest": Message<"aperture.flowcontrol.checkhttp.v1.CheckHTTPRequest.HttpRequest"> & {
    method: string;
    headers: { [key: string]: string };
    path: string;
    host: string;
    scheme: string;
    size: bigint;
    protocol: string;
    body: string;
  };
  readonly "aperture.flowcontrol.checkhttp.v1.CheckHTTPResponse": Message<"aperture.flowcontrol.checkhttp.v1.CheckHTTPResponse"> & {
    status?: MessagesByName["google.rpc.Status"] | undefined;
    httpResponse: { case: "deniedResponse"; value: MessagesByName["aperture.flowcontrol.checkhttp.v1.DeniedHttpResponse"] } | { case: "okResponse"; value: MessagesByName["aperture.flowcontrol.checkhttp.v1.OkHttpResponse"] } | { case: undefined; value?: undefined };
    checkResponse?: MessagesByName["aperture.flowcontrol.check.v1.CheckResponse"] | undefined;
    dynamicMetadata?: JsonObject | undefined;
  };
  readonly "aperture.flowcontrol.checkhttp.v1.DeniedHttpResponse": Message<"aperture.flowcontrol.checkhttp.v1.DeniedHttpResponse"> & {
    status: number;
    headers: { [key: string]: string };
    body: string;
  };
  readonly "aperture.flowcontrol.checkhttp.v1.OkHttpResponse": Message<"aperture.flowcontrol.checkhttp.v1.OkHttpResponse"> & {
    headers: { [key: string]: string };
    dynamicMetadata?: JsonObject | undefined;
  };
  readonly "aperture.flowcontrol.checkhttp.v1.SocketAddress": Message<"aperture.flowcontrol.checkhttp.v1.SocketAddress"> & {
    protocol: number;
    address: string;
    port: number;
  };
  readonly "aperture.flowcontrol.controlpoints.v1.FlowControlPoint": Message<"aperture.flowcontrol.controlpoints.v1.FlowControlPoint"> & {
    controlPoint: string;
    type: string;
    service: string;
  };
  readonly "aperture.flowcontrol.controlpoints.v1.FlowControlPoints": Message<"aperture.flowcontrol.controlpoints.v1.FlowControlPoints"> & {
    flowControlPoints: MessagesByName["aperture.flowcontrol.controlpoints.v1.FlowControlPoint"][];
  };
  readonly "aperture.flowcontrol.preview.v1.PreviewFlowLabelsResponse": Message<"aperture.flowcontrol.preview.v1.PreviewFlowLabelsResponse"> & {
    samples: MessagesByName["aperture.flowcontrol.preview.v1.PreviewFlowLabelsResponse.FlowLabels"][];
  };
  readonly "aperture.flowcontrol.preview.v1.PreviewFlowLabelsResponse.FlowLabels": Message<"aperture.flowcontrol.preview.v1.PreviewFlowLabelsResponse.FlowLabels"> & {
    labels: { [key: string]: string };
  };
  readonly "aperture.flowcontrol.preview.v1.PreviewHTTPRequestsResponse": Message<"aperture.flowcontrol.preview.v1.PreviewHTTPRequestsResponse"> & {
    samples: JsonObject[];
  };
  readonly "aperture.flowcontrol.preview.v1.PreviewRequest": Message<"aperture.flowcontrol.preview.v1.PreviewRequest"> & {
    samples: bigint;
    controlPoint: string;
    service: string;
    labelMatcher?: MessagesByName["aperture.policy.language.v1.LabelMatcher"] | undefined;
  };
  readonly "aperture.info.v1.HostInfo": Message<"aperture.info.v1.HostInfo"> & {
    uuid: string;
    hostname: string;
    localIp: string;
  };
  readonly "aperture.info.v1.ProcessInfo": Message<"aperture.info.v1.ProcessInfo"> & {
    startTime?: Timestamp | undefined;
    uptime?: Duration | undefined;
    extensions: string[];
  };
  readonly "aperture.info.v1.VersionInfo": Message<"aperture.info.v1.VersionInfo"> & {
    version: string;
    service: string;
    buildHost: string;
    buildOs: string;
    buildTime: string;
    gitBranch: string;
    gitCommitHash: string;
  };
  readonly "aperture.peers.v1.Peer": Message<"aperture.peers.v1.Peer"> & {
    address: string;
    hostname: string;
    services: { [key: string]: string };
    id: string;
  };
  readonly "aperture.peers.v1.PeerRequest": Message<"aperture.peers.v1.PeerRequest"> & {
    address: string;
  };
  readonly "aperture.peers.v1.Peers": Message<"aperture.peers.v1.Peers"> & {
    selfPeer?: MessagesByName["aperture.peers.v1.Peer"] | undefined;
    peers: { [key: string]: MessagesByName["aperture.peers.v1.Peer"] };
  };
  readonly "aperture.policy.language.v1.AIADLoadScheduler": Message<"aperture.policy.language.v1.AIADLoadScheduler"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.AIADLoadScheduler.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.AIADLoadScheduler.Outs"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.AIADLoadScheduler.Parameters"] | undefined;
    dryRun: boolean;
    dryRunConfigKey: string;
    overloadCondition: string;
  };
  readonly "aperture.policy.language.v1.AIADLoadScheduler.Ins": Message<"aperture.policy.language.v1.AIADLoadScheduler.Ins"> & {
    signal?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    setpoint?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    overloadConfirmation?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.AIADLoadScheduler.Outs": Message<"aperture.policy.language.v1.AIADLoadScheduler.Outs"> & {
    isOverload?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
    desiredLoadMultiplier?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
    observedLoadMultiplier?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.AIADLoadScheduler.Parameters": Message<"aperture.policy.language.v1.AIADLoadScheduler.Parameters"> & {
    loadScheduler?: MessagesByName["aperture.policy.language.v1.LoadScheduler.Parameters"] | undefined;
    minLoadMultiplier: number;
    loadMultiplierLinearDecrement: number;
    maxLoadMultiplier: number;
    loadMultiplierLinearIncrement: number;
    alerter?: MessagesByName["aperture.policy.language.v1.Alerter.Parameters"] | undefined;
  };
  readonly "aperture.policy.language.v1.AIMDLoadScheduler": Message<"aperture.policy.language.v1.AIMDLoadScheduler"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.AIMDLoadScheduler.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.AIMDLoadScheduler.Outs"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.AIMDLoadScheduler.Parameters"] | undefined;
    dryRun: boolean;
    dryRunConfigKey: string;
  };
  readonly "aperture.policy.language.v1.AIMDLoadScheduler.Ins": Message<"aperture.policy.language.v1.AIMDLoadScheduler.Ins"> & {
    signal?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    setpoint?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    overloadConfirmation?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.AIMDLoadScheduler.Outs": Message<"aperture.policy.language.v1.AIMDLoadScheduler.Outs"> & {
    isOverload?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
    desiredLoadMultiplier?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
    observedLoadMultiplier?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.AIMDLoadScheduler.Parameters": Message<"aperture.policy.language.v1.AIMDLoadScheduler.Parameters"> & {
    loadScheduler?: MessagesByName["aperture.policy.language.v1.LoadScheduler.Parameters"] | undefined;
    gradient?: MessagesByName["aperture.policy.language.v1.GradientController.Parameters"] | undefined;
    maxLoadMultiplier: number;
    loadMultiplierLinearIncrement: number;
    alerter?: MessagesByName["aperture.policy.language.v1.Alerter.Parameters"] | undefined;
  };
  readonly "aperture.policy.language.v1.AdaptiveLoadScheduler": Message<"aperture.policy.language.v1.AdaptiveLoadScheduler"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.AdaptiveLoadScheduler.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.AdaptiveLoadScheduler.Outs"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.AdaptiveLoadScheduler.Parameters"] | undefined;
    dryRun: boolean;
    dryRunConfigKey: string;
  };
  readonly "aperture.policy.language.v1.AdaptiveLoadScheduler.Ins": Message<"aperture.policy.language.v1.AdaptiveLoadScheduler.Ins"> & {
    signal?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    setpoint?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    overloadConfirmation?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.AdaptiveLoadScheduler.Outs": Message<"aperture.policy.language.v1.AdaptiveLoadScheduler.Outs"> & {
    isOverload?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
    desiredLoadMultiplier?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
    observedLoadMultiplier?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.AdaptiveLoadScheduler.Parameters": Message<"aperture.policy.language.v1.AdaptiveLoadScheduler.Parameters"> & {
    loadScheduler?: MessagesByName["aperture.policy.language.v1.LoadScheduler.Parameters"] | undefined;
    gradient?: MessagesByName["aperture.policy.language.v1.GradientController.Parameters"] | undefined;
    maxLoadMultiplier: number;
    loadMultiplierLinearIncrement: number;
    alerter?: MessagesByName["aperture.policy.language.v1.Alerter.Parameters"] | undefined;
  };
  readonly "aperture.policy.language.v1.AddressExtractor": Message<"aperture.policy.language.v1.AddressExtractor"> & {
    from: string;
    port?: boolean | undefined;
    ipv4Prefix?: number | undefined;
    ipv6Prefix?: number | undefined;
  };
  readonly "aperture.policy.language.v1.Alerter": Message<"aperture.policy.language.v1.Alerter"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.Alerter.Ins"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.Alerter.Parameters"] | undefined;
  };
  readonly "aperture.policy.language.v1.Alerter.Ins": Message<"aperture.policy.language.v1.Alerter.Ins"> & {
    signal?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.Alerter.Parameters": Message<"aperture.policy.language.v1.Alerter.Parameters"> & {
    alertName: string;
    severity: string;
    resolveTimeout?: Duration | undefined;
    alertChannels: string[];
    labels: { [key: string]: string };
  };
  readonly "aperture.policy.language.v1.And": Message<"aperture.policy.language.v1.And"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.And.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.And.Outs"] | undefined;
  };
  readonly "aperture.policy.language.v1.And.Ins": Message<"aperture.policy.language.v1.And.Ins"> & {
    inputs: MessagesByName["aperture.policy.language.v1.InPort"][];
  };
  readonly "aperture.policy.language.v1.And.Outs": Message<"aperture.policy.language.v1.And.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.ArithmeticCombinator": Message<"aperture.policy.language.v1.ArithmeticCombinator"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.ArithmeticCombinator.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.ArithmeticCombinator.Outs"] | undefined;
    operator: string;
  };
  readonly "aperture.policy.language.v1.ArithmeticCombinator.Ins": Message<"aperture.policy.language.v1.ArithmeticCombinator.Ins"> & {
    lhs?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    rhs?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.ArithmeticCombinator.Outs": Message<"aperture.policy.language.v1.ArithmeticCombinator.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.AutoScale": Message<"aperture.policy.language.v1.AutoScale"> & {
    component: { case: "podScaler"; value: MessagesByName["aperture.policy.language.v1.PodScaler"] } | { case: "autoScaler"; value: MessagesByName["aperture.policy.language.v1.AutoScaler"] } | { case: "private"; value: Any } | { case: undefined; value?: undefined };
  };
  readonly "aperture.policy.language.v1.AutoScaler": Message<"aperture.policy.language.v1.AutoScaler"> & {
    scalingBackend?: MessagesByName["aperture.policy.language.v1.AutoScaler.ScalingBackend"] | undefined;
    scaleOutControllers: MessagesByName["aperture.policy.language.v1.ScaleOutController"][];
    scaleInControllers: MessagesByName["aperture.policy.language.v1.ScaleInController"][];
    scalingParameters?: MessagesByName["aperture.policy.language.v1.AutoScaler.ScalingParameters"] | undefined;
    dryRun: boolean;
    dryRunConfigKey: string;
  };
  readonly "aperture.policy.language.v1.AutoScaler.ScalingBackend": Message<"aperture.policy.language.v1.AutoScaler.ScalingBackend"> & {
    scaler: { case: "kubernetesReplicas"; value: MessagesByName["aperture.policy.language.v1.AutoScaler.ScalingBackend.KubernetesReplicas"] } | { case: undefined; value?: undefined };
  };
  readonly "aperture.policy.language.v1.AutoScaler.ScalingBackend.KubernetesReplicas": Message<"aperture.policy.language.v1.AutoScaler.ScalingBackend.KubernetesReplicas"> & {
    kubernetesObjectSelector?: MessagesByName["aperture.policy.language.v1.KubernetesObjectSelector"] | undefined;
    minReplicas: bigint;
    maxReplicas: bigint;
    outPorts?: MessagesByName["aperture.policy.language.v1.AutoScaler.ScalingBackend.KubernetesReplicas.Outs"] | undefined;
  };
  readonly "aperture.policy.language.v1.AutoScaler.ScalingBackend.KubernetesReplicas.Outs": Message<"aperture.policy.language.v1.AutoScaler.ScalingBackend.KubernetesReplicas.Outs"> & {
    actualReplicas?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
    configuredReplicas?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
    desiredReplicas?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.AutoScaler.ScalingParameters": Message<"aperture.policy.language.v1.AutoScaler.ScalingParameters"> & {
    maxScaleOutPercentage: number;
    maxScaleInPercentage: number;
    scaleOutCooldown?: Duration | undefined;
    scaleInCooldown?: Duration | undefined;
    cooldownOverridePercentage: number;
    scaleOutAlerter?: MessagesByName["aperture.policy.language.v1.Alerter.Parameters"] | undefined;
    scaleInAlerter?: MessagesByName["aperture.policy.language.v1.Alerter.Parameters"] | undefined;
  };
  readonly "aperture.policy.language.v1.BoolVariable": Message<"aperture.policy.language.v1.BoolVariable"> & {
    outPorts?: MessagesByName["aperture.policy.language.v1.BoolVariable.Outs"] | undefined;
    constantOutput: boolean;
    configKey: string;
  };
  readonly "aperture.policy.language.v1.BoolVariable.Outs": Message<"aperture.policy.language.v1.BoolVariable.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.Circuit": Message<"aperture.policy.language.v1.Circuit"> & {
    evaluationInterval?: Duration | undefined;
    components: MessagesByName["aperture.policy.language.v1.Component"][];
  };
  readonly "aperture.policy.language.v1.Classifier": Message<"aperture.policy.language.v1.Classifier"> & {
    rules: { [key: string]: MessagesByName["aperture.policy.language.v1.Rule"] };
    rego?: MessagesByName["aperture.policy.language.v1.Rego"] | undefined;
    selectors: MessagesByName["aperture.policy.language.v1.Selector"][];
  };
  readonly "aperture.policy.language.v1.Component": Message<"aperture.policy.language.v1.Component"> & {
    component: { case: "gradientController"; value: MessagesByName["aperture.policy.language.v1.GradientController"] } | { case: "ema"; value: MessagesByName["aperture.policy.language.v1.EMA"] } | { case: "arithmeticCombinator"; value: MessagesByName["aperture.policy.language.v1.ArithmeticCombinator"] } | { case: "decider"; value: MessagesByName["aperture.policy.language.v1.Decider"] } | { case: "switcher"; value: MessagesByName["aperture.policy.language.v1.Switcher"] } | { case: "sma"; value: MessagesByName["aperture.policy.language.v1.SMA"] } | { case: "variable"; value: MessagesByName["aperture.policy.language.v1.Variable"] } | { case: "unaryOperator"; value: MessagesByName["aperture.policy.language.v1.UnaryOperator"] } | { case: "extrapolator"; value: MessagesByName["aperture.policy.language.v1.Extrapolator"] } | { case: "max"; value: MessagesByName["aperture.policy.language.v1.Max"] } | { case: "min"; value: MessagesByName["aperture.policy.language.v1.Min"] } | { case: "firstValid"; value: MessagesByName["aperture.policy.language.v1.FirstValid"] } | { case: "alerter"; value: MessagesByName["aperture.policy.language.v1.Alerter"] } | { case: "integrator"; value: MessagesByName["aperture.policy.language.v1.Integrator"] } | { case: "differentiator"; value: MessagesByName["aperture.policy.language.v1.Differentiator"] } | { case: "and"; value: MessagesByName["aperture.policy.language.v1.And"] } | { case: "or"; value: MessagesByName["aperture.policy.language.v1.Or"] } | { case: "inverter"; value: MessagesByName["aperture.policy.language.v1.Inverter"] } | { case: "pulseGenerator"; value: MessagesByName["aperture.policy.language.v1.PulseGenerator"] } | { case: "holder"; value: MessagesByName["aperture.policy.language.v1.Holder"] } | { case: "nestedCircuit"; value: MessagesByName["aperture.policy.language.v1.NestedCircuit"] } | { case: "nestedSignalIngress"; value: MessagesByName["aperture.policy.language.v1.NestedSignalIngress"] } | { case: "nestedSignalEgress"; value: MessagesByName["aperture.policy.language.v1.NestedSignalEgress"] } | { case: "signalGenerator"; value: MessagesByName["aperture.policy.language.v1.SignalGenerator"] } | { case: "boolVariable"; value: MessagesByName["aperture.policy.language.v1.BoolVariable"] } | { case: "pidController"; value: MessagesByName["aperture.policy.language.v1.PIDController"] } | { case: "polynomialRangeFunction"; value: MessagesByName["aperture.policy.language.v1.PolynomialRangeFunction"] } | { case: "query"; value: MessagesByName["aperture.policy.language.v1.Query"] } | { case: "flowControl"; value: MessagesByName["aperture.policy.language.v1.FlowControl"] } | { case: "autoScale"; value: MessagesByName["aperture.policy.language.v1.AutoScale"] } | { case: undefined; value?: undefined };
  };
  readonly "aperture.policy.language.v1.ConcurrencyLimiter": Message<"aperture.policy.language.v1.ConcurrencyLimiter"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.ConcurrencyLimiter.Ins"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.ConcurrencyLimiter.Parameters"] | undefined;
    selectors: MessagesByName["aperture.policy.language.v1.Selector"][];
    requestParameters?: MessagesByName["aperture.policy.language.v1.ConcurrencyLimiter.RequestParameters"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.ConcurrencyLimiter.Outs"] | undefined;
  };
  readonly "aperture.policy.language.v1.ConcurrencyLimiter.Ins": Message<"aperture.policy.language.v1.ConcurrencyLimiter.Ins"> & {
    maxConcurrency?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    passThrough?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.ConcurrencyLimiter.Outs": Message<"aperture.policy.language.v1.ConcurrencyLimiter.Outs"> & {
    acceptPercentage?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.ConcurrencyLimiter.Parameters": Message<"aperture.policy.language.v1.ConcurrencyLimiter.Parameters"> & {
    limitByLabelKey: string;
    maxInflightDuration?: Duration | undefined;
    maxIdleTime?: Duration | undefined;
    onMissingLabel?: string | undefined;
    onFailure?: string | undefined;
    adaptive?: MessagesByName["aperture.policy.language.v1.ConcurrencyLimiter.Parameters.Adaptive"] | undefined;
  };
  readonly "aperture.policy.language.v1.ConcurrencyLimiter.Parameters.Adaptive": Message<"aperture.policy.language.v1.ConcurrencyLimiter.Parameters.Adaptive"> & {
    min: number;
    max: number;
    start?: number | undefined;
    tolerance: number;
  };
  readonly "aperture.policy.language.v1.ConcurrencyLimiter.RequestParameters": Message<"aperture.policy.language.v1.ConcurrencyLimiter.RequestParameters"> & {
    tokensLabelKey: string;
    deniedResponseStatusCode: number;
  };
  readonly "aperture.policy.language.v1.ConcurrencyScheduler": Message<"aperture.policy.language.v1.ConcurrencyScheduler"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.ConcurrencyLimiter.Ins"] | undefined;
    selectors: MessagesByName["aperture.policy.language.v1.Selector"][];
    concurrencyLimiter?: MessagesByName["aperture.policy.language.v1.ConcurrencyLimiter.Parameters"] | undefined;
    scheduler?: MessagesByName["aperture.policy.language.v1.Scheduler"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.ConcurrencyLimiter.Outs"] | undefined;
  };
  readonly "aperture.policy.language.v1.ConstantSignal": Message<"aperture.policy.language.v1.ConstantSignal"> & {
    const: { case: "specialValue"; value: string } | { case: "value"; value: number } | { case: undefined; value?: undefined };
  };
  readonly "aperture.policy.language.v1.Decider": Message<"aperture.policy.language.v1.Decider"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.Decider.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.Decider.Outs"] | undefined;
    operator: string;
    trueFor?: Duration | undefined;
    falseFor?: Duration | undefined;
  };
  readonly "aperture.policy.language.v1.Decider.Ins": Message<"aperture.policy.language.v1.Decider.Ins"> & {
    lhs?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    rhs?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.Decider.Outs": Message<"aperture.policy.language.v1.Decider.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.DecreasingGradient": Message<"aperture.policy.language.v1.DecreasingGradient"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.DecreasingGradient.Ins"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.DecreasingGradient.Parameters"] | undefined;
  };
  readonly "aperture.policy.language.v1.DecreasingGradient.Ins": Message<"aperture.policy.language.v1.DecreasingGradient.Ins"> & {
    signal?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    setpoint?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.DecreasingGradient.Parameters": Message<"aperture.policy.language.v1.DecreasingGradient.Parameters"> & {
    slope: number;
    minGradient: number;
  };
  readonly "aperture.policy.language.v1.DeleteDynamicConfigRequest": Message<"aperture.policy.language.v1.DeleteDynamicConfigRequest"> & {
    policyName: string;
  };
  readonly "aperture.policy.language.v1.DeletePolicyRequest": Message<"aperture.policy.language.v1.DeletePolicyRequest"> & {
    name: string;
  };
  readonly "aperture.policy.language.v1.Differentiator": Message<"aperture.policy.language.v1.Differentiator"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.Differentiator.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.Differentiator.Outs"] | undefined;
    window?: Duration | undefined;
  };
  readonly "aperture.policy.language.v1.Differentiator.Ins": Message<"aperture.policy.language.v1.Differentiator.Ins"> & {
    input?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.Differentiator.Outs": Message<"aperture.policy.language.v1.Differentiator.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.EMA": Message<"aperture.policy.language.v1.EMA"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.EMA.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.EMA.Outs"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.EMA.Parameters"] | undefined;
  };
  readonly "aperture.policy.language.v1.EMA.Ins": Message<"aperture.policy.language.v1.EMA.Ins"> & {
    input?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    maxEnvelope?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    minEnvelope?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.EMA.Outs": Message<"aperture.policy.language.v1.EMA.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.EMA.Parameters": Message<"aperture.policy.language.v1.EMA.Parameters"> & {
    emaWindow?: Duration | undefined;
    warmupWindow?: Duration | undefined;
    correctionFactorOnMinEnvelopeViolation: number;
    correctionFactorOnMaxEnvelopeViolation: number;
    validDuringWarmup: boolean;
  };
  readonly "aperture.policy.language.v1.EqualsExpression": Message<"aperture.policy.language.v1.EqualsExpression"> & {
    label: string;
    value: string;
  };
  readonly "aperture.policy.language.v1.Expression": Message<"aperture.policy.language.v1.Expression"> & {
    variant: { case: "not"; value: MessagesByName["aperture.policy.language.v1.Expression"] } | { case: "all"; value: MessagesByName["aperture.policy.language.v1.Expression.List"] } | { case: "any"; value: MessagesByName["aperture.policy.language.v1.Expression.List"] } | { case: "labelExists"; value: string } | { case: "labelEquals"; value: MessagesByName["aperture.policy.language.v1.EqualsExpression"] } | { case: "labelMatches"; value: MessagesByName["aperture.policy.language.v1.MatchesExpression"] } | { case: undefined; value?: undefined };
  };
  readonly "aperture.policy.language.v1.Expression.List": Message<"aperture.policy.language.v1.Expression.List"> & {
    of: MessagesByName["aperture.policy.language.v1.Expression"][];
  };
  readonly "aperture.policy.language.v1.Extractor": Message<"aperture.policy.language.v1.Extractor"> & {
    variant: { case: "from"; value: string } | { case: "json"; value: MessagesByName["aperture.policy.language.v1.JSONExtractor"] } | { case: "address"; value: MessagesByName["aperture.policy.language.v1.AddressExtractor"] } | { case: "jwt"; value: MessagesByName["aperture.policy.language.v1.JWTExtractor"] } | { case: "pathTemplates"; value: MessagesByName["aperture.policy.language.v1.PathTemplateMatcher"] } | { case: "form"; value: MessagesByName["aperture.policy.language.v1.FormExtractor"] } | { case: undefined; value?: undefined };
  };
  readonly "aperture.policy.language.v1.Extrapolator": Message<"aperture.policy.language.v1.Extrapolator"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.Extrapolator.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.Extrapolator.Outs"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.Extrapolator.Parameters"] | undefined;
  };
  readonly "aperture.policy.language.v1.Extrapolator.Ins": Message<"aperture.policy.language.v1.Extrapolator.Ins"> & {
    input?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.Extrapolator.Outs": Message<"aperture.policy.language.v1.Extrapolator.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.Extrapolator.Parameters": Message<"aperture.policy.language.v1.Extrapolator.Parameters"> & {
    maxExtrapolationInterval?: Duration | undefined;
  };
  readonly "aperture.policy.language.v1.FirstValid": Message<"aperture.policy.language.v1.FirstValid"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.FirstValid.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.FirstValid.Outs"] | undefined;
  };
  readonly "aperture.policy.language.v1.FirstValid.Ins": Message<"aperture.policy.language.v1.FirstValid.Ins"> & {
    inputs: MessagesByName["aperture.policy.language.v1.InPort"][];
  };
  readonly "aperture.policy.language.v1.FirstValid.Outs": Message<"aperture.policy.language.v1.FirstValid.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.FlowControl": Message<"aperture.policy.language.v1.FlowControl"> & {
    component: { case: "quotaScheduler"; value: MessagesByName["aperture.policy.language.v1.QuotaScheduler"] } | { case: "rateLimiter"; value: MessagesByName["aperture.policy.language.v1.RateLimiter"] } | { case: "loadScheduler"; value: MessagesByName["aperture.policy.language.v1.LoadScheduler"] } | { case: "adaptiveLoadScheduler"; value: MessagesByName["aperture.policy.language.v1.AdaptiveLoadScheduler"] } | { case: "sampler"; value: MessagesByName["aperture.policy.language.v1.Sampler"] } | { case: "loadRamp"; value: MessagesByName["aperture.policy.language.v1.LoadRamp"] } | { case: "aimdLoadScheduler"; value: MessagesByName["aperture.policy.language.v1.AIMDLoadScheduler"] } | { case: "rangeDrivenLoadScheduler"; value: MessagesByName["aperture.policy.language.v1.RangeDrivenLoadScheduler"] } | { case: "aiadLoadScheduler"; value: MessagesByName["aperture.policy.language.v1.AIADLoadScheduler"] } | { case: "concurrencyLimiter"; value: MessagesByName["aperture.policy.language.v1.ConcurrencyLimiter"] } | { case: "concurrencyScheduler"; value: MessagesByName["aperture.policy.language.v1.ConcurrencyScheduler"] } | { case: "private"; value: Any } | { case: undefined; value?: undefined };
  };
  readonly "aperture.policy.language.v1.FlowControlResources": Message<"aperture.policy.language.v1.FlowControlResources"> & {
    fluxMeters: { [key: string]: MessagesByName["aperture.policy.language.v1.FluxMeter"] };
    classifiers: MessagesByName["aperture.policy.language.v1.Classifier"][];
    expectedLabels: string[];
  };
  readonly "aperture.policy.language.v1.FluxMeter": Message<"aperture.policy.language.v1.FluxMeter"> & {
    histogramBuckets: { case: "staticBuckets"; value: MessagesByName["aperture.policy.language.v1.FluxMeter.StaticBuckets"] } | { case: "linearBuckets"; value: MessagesByName["aperture.policy.language.v1.FluxMeter.LinearBuckets"] } | { case: "exponentialBuckets"; value: MessagesByName["aperture.policy.language.v1.FluxMeter.ExponentialBuckets"] } | { case: "exponentialBucketsRange"; value: MessagesByName["aperture.policy.language.v1.FluxMeter.ExponentialBucketsRange"] } | { case: undefined; value?: undefined };
    attributeKey: string;
    selectors: MessagesByName["aperture.policy.language.v1.Selector"][];
  };
  readonly "aperture.policy.language.v1.FluxMeter.ExponentialBuckets": Message<"aperture.policy.language.v1.FluxMeter.ExponentialBuckets"> & {
    start: number;
    factor: number;
    count: number;
  };
  readonly "aperture.policy.language.v1.FluxMeter.ExponentialBucketsRange": Message<"aperture.policy.language.v1.FluxMeter.ExponentialBucketsRange"> & {
    min: number;
    max: number;
    count: number;
  };
  readonly "aperture.policy.language.v1.FluxMeter.LinearBuckets": Message<"aperture.policy.language.v1.FluxMeter.LinearBuckets"> & {
    start: number;
    width: number;
    count: number;
  };
  readonly "aperture.policy.language.v1.FluxMeter.StaticBuckets": Message<"aperture.policy.language.v1.FluxMeter.StaticBuckets"> & {
    buckets: number[];
  };
  readonly "aperture.policy.language.v1.FormExtractor": Message<"aperture.policy.language.v1.FormExtractor"> & {
    from: string;
    name: string;
  };
  readonly "aperture.policy.language.v1.GetDecisionsRequest": Message<"aperture.policy.language.v1.GetDecisionsRequest"> & {
    decisionType: string;
  };
  readonly "aperture.policy.language.v1.GetDecisionsResponse": Message<"aperture.policy.language.v1.GetDecisionsResponse"> & {
    decisions: { [key: string]: string };
  };
  readonly "aperture.policy.language.v1.GetDynamicConfigRequest": Message<"aperture.policy.language.v1.GetDynamicConfigRequest"> & {
    policyName: string;
  };
  readonly "aperture.policy.language.v1.GetDynamicConfigResponse": Message<"aperture.policy.language.v1.GetDynamicConfigResponse"> & {
    dynamicConfig?: JsonObject | undefined;
  };
  readonly "aperture.policy.language.v1.GetPoliciesResponse": Message<"aperture.policy.language.v1.GetPoliciesResponse"> & {
    policies?: MessagesByName["aperture.policy.language.v1.Policies"] | undefined;
  };
  readonly "aperture.policy.language.v1.GetPolicyRequest": Message<"aperture.policy.language.v1.GetPolicyRequest"> & {
    name: string;
  };
  readonly "aperture.policy.language.v1.GetPolicyResponse": Message<"aperture.policy.language.v1.GetPolicyResponse"> & {
    policy?: MessagesByName["aperture.policy.language.v1.Policy"] | undefined;
    status: number;
    reason: string;
    rollout?: MessagesByName["aperture.policy.language.v1.Rollout"] | undefined;
  };
  readonly "aperture.policy.language.v1.GradientController": Message<"aperture.policy.language.v1.GradientController"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.GradientController.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.GradientController.Outs"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.GradientController.Parameters"] | undefined;
    manualMode: boolean;
    manualModeConfigKey: string;
  };
  readonly "aperture.policy.language.v1.GradientController.Ins": Message<"aperture.policy.language.v1.GradientController.Ins"> & {
    signal?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    setpoint?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    max?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    min?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    controlVariable?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.GradientController.Outs": Message<"aperture.policy.language.v1.GradientController.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.GradientController.Parameters": Message<"aperture.policy.language.v1.GradientController.Parameters"> & {
    slope: number;
    minGradient: number;
    maxGradient: number;
  };
  readonly "aperture.policy.language.v1.Holder": Message<"aperture.policy.language.v1.Holder"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.Holder.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.Holder.Outs"] | undefined;
    holdFor?: Duration | undefined;
  };
  readonly "aperture.policy.language.v1.Holder.Ins": Message<"aperture.policy.language.v1.Holder.Ins"> & {
    input?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    reset?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.Holder.Outs": Message<"aperture.policy.language.v1.Holder.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.InPort": Message<"aperture.policy.language.v1.InPort"> & {
    value: { case: "signalName"; value: string } | { case: "constantSignal"; value: MessagesByName["aperture.policy.language.v1.ConstantSignal"] } | { case: undefined; value?: undefined };
  };
  readonly "aperture.policy.language.v1.IncreasingGradient": Message<"aperture.policy.language.v1.IncreasingGradient"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.IncreasingGradient.Ins"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.IncreasingGradient.Parameters"] | undefined;
  };
  readonly "aperture.policy.language.v1.IncreasingGradient.Ins": Message<"aperture.policy.language.v1.IncreasingGradient.Ins"> & {
    signal?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    setpoint?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.IncreasingGradient.Parameters": Message<"aperture.policy.language.v1.IncreasingGradient.Parameters"> & {
    slope: number;
    maxGradient: number;
  };
  readonly "aperture.policy.language.v1.InfraMeter": Message<"aperture.policy.language.v1.InfraMeter"> & {
    receivers: { [key: string]: JsonObject };
    processors: { [key: string]: JsonObject };
    pipeline?: MessagesByName["aperture.policy.language.v1.InfraMeter.MetricsPipeline"] | undefined;
    perAgentGroup: boolean;
    agentGroup: string;
  };
  readonly "aperture.policy.language.v1.InfraMeter.MetricsPipeline": Message<"aperture.policy.language.v1.InfraMeter.MetricsPipeline"> & {
    receivers: string[];
    processors: string[];
  };
  readonly "aperture.policy.language.v1.Integrator": Message<"aperture.policy.language.v1.Integrator"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.Integrator.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.Integrator.Outs"] | undefined;
    initialValue: number;
    evaluationInterval?: Duration | undefined;
  };
  readonly "aperture.policy.language.v1.Integrator.Ins": Message<"aperture.policy.language.v1.Integrator.Ins"> & {
    input?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    reset?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    max?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    min?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.Integrator.Outs": Message<"aperture.policy.language.v1.Integrator.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.Inverter": Message<"aperture.policy.language.v1.Inverter"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.Inverter.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.Inverter.Outs"] | undefined;
  };
  readonly "aperture.policy.language.v1.Inverter.Ins": Message<"aperture.policy.language.v1.Inverter.Ins"> & {
    input?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.Inverter.Outs": Message<"aperture.policy.language.v1.Inverter.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.JSONExtractor": Message<"aperture.policy.language.v1.JSONExtractor"> & {
    from: string;
    pointer: string;
  };
  readonly "aperture.policy.language.v1.JWTExtractor": Message<"aperture.policy.language.v1.JWTExtractor"> & {
    from: string;
    jsonPointer: string;
  };
  readonly "aperture.policy.language.v1.KubernetesObjectSelector": Message<"aperture.policy.language.v1.KubernetesObjectSelector"> & {
    agentGroup: string;
    namespace: string;
    apiVersion: string;
    kind: string;
    name: string;
  };
  readonly "aperture.policy.language.v1.LabelMatcher": Message<"aperture.policy.language.v1.LabelMatcher"> & {
    matchLabels: { [key: string]: string };
    matchExpressions: MessagesByName["aperture.policy.language.v1.MatchRequirement"][];
    expression?: MessagesByName["aperture.policy.language.v1.Expression"] | undefined;
    matchList: MessagesByName["aperture.policy.language.v1.MatchRequirement"][];
  };
  readonly "aperture.policy.language.v1.LoadRamp": Message<"aperture.policy.language.v1.LoadRamp"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.LoadRamp.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.LoadRamp.Outs"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.LoadRamp.Parameters"] | undefined;
    passThroughLabelValues: string[];
    passThroughLabelValuesConfigKey: string;
  };
  readonly "aperture.policy.language.v1.LoadRamp.Ins": Message<"aperture.policy.language.v1.LoadRamp.Ins"> & {
    forward?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    backward?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    reset?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.LoadRamp.Outs": Message<"aperture.policy.language.v1.LoadRamp.Outs"> & {
    acceptPercentage?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
    atStart?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
    atEnd?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.LoadRamp.Parameters": Message<"aperture.policy.language.v1.LoadRamp.Parameters"> & {
    sampler?: MessagesByName["aperture.policy.language.v1.Sampler.Parameters"] | undefined;
    steps: MessagesByName["aperture.policy.language.v1.LoadRamp.Parameters.Step"][];
  };
  readonly "aperture.policy.language.v1.LoadRamp.Parameters.Step": Message<"aperture.policy.language.v1.LoadRamp.Parameters.Step"> & {
    targetAcceptPercentage: number;
    duration?: Duration | undefined;
  };
  readonly "aperture.policy.language.v1.LoadScheduler": Message<"aperture.policy.language.v1.LoadScheduler"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.LoadScheduler.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.LoadScheduler.Outs"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.LoadScheduler.Parameters"] | undefined;
    dryRun: boolean;
    dryRunConfigKey: string;
  };
  readonly "aperture.policy.language.v1.LoadScheduler.Ins": Message<"aperture.policy.language.v1.LoadScheduler.Ins"> & {
    loadMultiplier?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.LoadScheduler.Outs": Message<"aperture.policy.language.v1.LoadScheduler.Outs"> & {
    observedLoadMultiplier?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.LoadScheduler.Parameters": Message<"aperture.policy.language.v1.LoadScheduler.Parameters"> & {
    workloadLatencyBasedTokens: boolean;
    scheduler?: MessagesByName["aperture.policy.language.v1.Scheduler"] | undefined;
    selectors: MessagesByName["aperture.policy.language.v1.Selector"][];
  };
  readonly "aperture.policy.language.v1.MatchRequirement": Message<"aperture.policy.language.v1.MatchRequirement"> & {
    key: string;
    operator: string;
    values: string[];
  };
  readonly "aperture.policy.language.v1.MatchesExpression": Message<"aperture.policy.language.v1.MatchesExpression"> & {
    label: string;
    regex: string;
  };
  readonly "aperture.policy.language.v1.Max": Message<"aperture.policy.language.v1.Max"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.Max.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.Max.Outs"] | undefined;
  };
  readonly "aperture.policy.language.v1.Max.Ins": Message<"aperture.policy.language.v1.Max.Ins"> & {
    inputs: MessagesByName["aperture.policy.language.v1.InPort"][];
  };
  readonly "aperture.policy.language.v1.Max.Outs": Message<"aperture.policy.language.v1.Max.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.Min": Message<"aperture.policy.language.v1.Min"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.Min.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.Min.Outs"] | undefined;
  };
  readonly "aperture.policy.language.v1.Min.Ins": Message<"aperture.policy.language.v1.Min.Ins"> & {
    inputs: MessagesByName["aperture.policy.language.v1.InPort"][];
  };
  readonly "aperture.policy.language.v1.Min.Outs": Message<"aperture.policy.language.v1.Min.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.NestedCircuit": Message<"aperture.policy.language.v1.NestedCircuit"> & {
    inPortsMap: { [key: string]: MessagesByName["aperture.policy.language.v1.InPort"] };
    outPortsMap: { [key: string]: MessagesByName["aperture.policy.language.v1.OutPort"] };
    components: MessagesByName["aperture.policy.language.v1.Component"][];
  };
  readonly "aperture.policy.language.v1.NestedSignalEgress": Message<"aperture.policy.language.v1.NestedSignalEgress"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.NestedSignalEgress.Ins"] | undefined;
    portName: string;
  };
  readonly "aperture.policy.language.v1.NestedSignalEgress.Ins": Message<"aperture.policy.language.v1.NestedSignalEgress.Ins"> & {
    signal?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.NestedSignalIngress": Message<"aperture.policy.language.v1.NestedSignalIngress"> & {
    outPorts?: MessagesByName["aperture.policy.language.v1.NestedSignalIngress.Outs"] | undefined;
    portName: string;
  };
  readonly "aperture.policy.language.v1.NestedSignalIngress.Outs": Message<"aperture.policy.language.v1.NestedSignalIngress.Outs"> & {
    signal?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.Or": Message<"aperture.policy.language.v1.Or"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.Or.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.Or.Outs"] | undefined;
  };
  readonly "aperture.policy.language.v1.Or.Ins": Message<"aperture.policy.language.v1.Or.Ins"> & {
    inputs: MessagesByName["aperture.policy.language.v1.InPort"][];
  };
  readonly "aperture.policy.language.v1.Or.Outs": Message<"aperture.policy.language.v1.Or.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.OutPort": Message<"aperture.policy.language.v1.OutPort"> & {
    signalName?: string | undefined;
  };
  readonly "aperture.policy.language.v1.PIDController": Message<"aperture.policy.language.v1.PIDController"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.PIDController.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.PIDController.Outs"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.PIDController.Parameters"] | undefined;
  };
  readonly "aperture.policy.language.v1.PIDController.Ins": Message<"aperture.policy.language.v1.PIDController.Ins"> & {
    signal?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    setpoint?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    min?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    max?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.PIDController.Outs": Message<"aperture.policy.language.v1.PIDController.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.PIDController.Parameters": Message<"aperture.policy.language.v1.PIDController.Parameters"> & {
    kp: number;
    ki: number;
    kd: number;
    evaluationInterval?: Duration | undefined;
    resetAfterInvalidSamples: number;
  };
  readonly "aperture.policy.language.v1.PathTemplateMatcher": Message<"aperture.policy.language.v1.PathTemplateMatcher"> & {
    templateValues: { [key: string]: string };
  };
  readonly "aperture.policy.language.v1.PeriodicDecrease": Message<"aperture.policy.language.v1.PeriodicDecrease"> & {
    period?: Duration | undefined;
    scaleInPercentage: number;
  };
  readonly "aperture.policy.language.v1.PodScaler": Message<"aperture.policy.language.v1.PodScaler"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.PodScaler.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.PodScaler.Outs"] | undefined;
    dryRun: boolean;
    dryRunConfigKey: string;
    kubernetesObjectSelector?: MessagesByName["aperture.policy.language.v1.KubernetesObjectSelector"] | undefined;
  };
  readonly "aperture.policy.language.v1.PodScaler.Ins": Message<"aperture.policy.language.v1.PodScaler.Ins"> & {
    replicas?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.PodScaler.Outs": Message<"aperture.policy.language.v1.PodScaler.Outs"> & {
    actualReplicas?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
    configuredReplicas?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.Policies": Message<"aperture.policy.language.v1.Policies"> & {
    policies: { [key: string]: MessagesByName["aperture.policy.language.v1.GetPolicyResponse"] };
  };
  readonly "aperture.policy.language.v1.Policy": Message<"aperture.policy.language.v1.Policy"> & {
    circuit?: MessagesByName["aperture.policy.language.v1.Circuit"] | undefined;
    resources?: MessagesByName["aperture.policy.language.v1.Resources"] | undefined;
  };
  readonly "aperture.policy.language.v1.PolynomialRangeFunction": Message<"aperture.policy.language.v1.PolynomialRangeFunction"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.PolynomialRangeFunction.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.PolynomialRangeFunction.Outs"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.PolynomialRangeFunction.Parameters"] | undefined;
  };
  readonly "aperture.policy.language.v1.PolynomialRangeFunction.Ins": Message<"aperture.policy.language.v1.PolynomialRangeFunction.Ins"> & {
    input?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.PolynomialRangeFunction.Outs": Message<"aperture.policy.language.v1.PolynomialRangeFunction.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.PolynomialRangeFunction.Parameters": Message<"aperture.policy.language.v1.PolynomialRangeFunction.Parameters"> & {
    outsideRange: { case: "clampToDatapoint"; value: boolean } | { case: "clampToCustomValues"; value: MessagesByName["aperture.policy.language.v1.PolynomialRangeFunction.Parameters.ClampToCustomValues"] } | { case: "continueCurve"; value: boolean } | { case: undefined; value?: undefined };
    start?: MessagesByName["aperture.policy.language.v1.PolynomialRangeFunction.Parameters.Datapoint"] | undefined;
    end?: MessagesByName["aperture.policy.language.v1.PolynomialRangeFunction.Parameters.Datapoint"] | undefined;
    degree: number;
  };
  readonly "aperture.policy.language.v1.PolynomialRangeFunction.Parameters.ClampToCustomValues": Message<"aperture.policy.language.v1.PolynomialRangeFunction.Parameters.ClampToCustomValues"> & {
    preStart: number;
    postEnd: number;
  };
  readonly "aperture.policy.language.v1.PolynomialRangeFunction.Parameters.Datapoint": Message<"aperture.policy.language.v1.PolynomialRangeFunction.Parameters.Datapoint"> & {
    input: number;
    output: number;
  };
  readonly "aperture.policy.language.v1.PostDynamicConfigRequest": Message<"aperture.policy.language.v1.PostDynamicConfigRequest"> & {
    policyName: string;
    dynamicConfig?: JsonObject | undefined;
  };
  readonly "aperture.policy.language.v1.PromQL": Message<"aperture.policy.language.v1.PromQL"> & {
    outPorts?: MessagesByName["aperture.policy.language.v1.PromQL.Outs"] | undefined;
    queryString: string;
    evaluationInterval?: Duration | undefined;
  };
  readonly "aperture.policy.language.v1.PromQL.Outs": Message<"aperture.policy.language.v1.PromQL.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.PulseGenerator": Message<"aperture.policy.language.v1.PulseGenerator"> & {
    outPorts?: MessagesByName["aperture.policy.language.v1.PulseGenerator.Outs"] | undefined;
    trueFor?: Duration | undefined;
    falseFor?: Duration | undefined;
  };
  readonly "aperture.policy.language.v1.PulseGenerator.Outs": Message<"aperture.policy.language.v1.PulseGenerator.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.Query": Message<"aperture.policy.language.v1.Query"> & {
    component: { case: "promql"; value: MessagesByName["aperture.policy.language.v1.PromQL"] } | { case: undefined; value?: undefined };
  };
  readonly "aperture.policy.language.v1.QuotaScheduler": Message<"aperture.policy.language.v1.QuotaScheduler"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.RateLimiter.Ins"] | undefined;
    selectors: MessagesByName["aperture.policy.language.v1.Selector"][];
    rateLimiter?: MessagesByName["aperture.policy.language.v1.RateLimiter.Parameters"] | undefined;
    scheduler?: MessagesByName["aperture.policy.language.v1.Scheduler"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.RateLimiter.Outs"] | undefined;
  };
  readonly "aperture.policy.language.v1.RangeDrivenLoadScheduler": Message<"aperture.policy.language.v1.RangeDrivenLoadScheduler"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.RangeDrivenLoadScheduler.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.RangeDrivenLoadScheduler.Outs"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.RangeDrivenLoadScheduler.Parameters"] | undefined;
    dryRun: boolean;
    dryRunConfigKey: string;
  };
  readonly "aperture.policy.language.v1.RangeDrivenLoadScheduler.Datapoint": Message<"aperture.policy.language.v1.RangeDrivenLoadScheduler.Datapoint"> & {
    signalValue: number;
    loadMultiplier: number;
  };
  readonly "aperture.policy.language.v1.RangeDrivenLoadScheduler.Ins": Message<"aperture.policy.language.v1.RangeDrivenLoadScheduler.Ins"> & {
    signal?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    overloadConfirmation?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.RangeDrivenLoadScheduler.Outs": Message<"aperture.policy.language.v1.RangeDrivenLoadScheduler.Outs"> & {
    isOverload?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
    desiredLoadMultiplier?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
    observedLoadMultiplier?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.RangeDrivenLoadScheduler.Parameters": Message<"aperture.policy.language.v1.RangeDrivenLoadScheduler.Parameters"> & {
    loadScheduler?: MessagesByName["aperture.policy.language.v1.LoadScheduler.Parameters"] | undefined;
    lowThrottleThreshold?: MessagesByName["aperture.policy.language.v1.RangeDrivenLoadScheduler.Datapoint"] | undefined;
    highThrottleThreshold?: MessagesByName["aperture.policy.language.v1.RangeDrivenLoadScheduler.Datapoint"] | undefined;
    degree: number;
    alerter?: MessagesByName["aperture.policy.language.v1.Alerter.Parameters"] | undefined;
  };
  readonly "aperture.policy.language.v1.RateLimiter": Message<"aperture.policy.language.v1.RateLimiter"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.RateLimiter.Ins"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.RateLimiter.Parameters"] | undefined;
    selectors: MessagesByName["aperture.policy.language.v1.Selector"][];
    requestParameters?: MessagesByName["aperture.policy.language.v1.RateLimiter.RequestParameters"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.RateLimiter.Outs"] | undefined;
  };
  readonly "aperture.policy.language.v1.RateLimiter.Ins": Message<"aperture.policy.language.v1.RateLimiter.Ins"> & {
    bucketCapacity?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    fillAmount?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    passThrough?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.RateLimiter.Outs": Message<"aperture.policy.language.v1.RateLimiter.Outs"> & {
    acceptPercentage?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.RateLimiter.Parameters": Message<"aperture.policy.language.v1.RateLimiter.Parameters"> & {
    labelKey: string;
    limitByLabelKey: string;
    interval?: Duration | undefined;
    continuousFill: boolean;
    maxIdleTime?: Duration | undefined;
    lazySync?: MessagesByName["aperture.policy.language.v1.RateLimiter.Parameters.LazySync"] | undefined;
    delayInitialFill: boolean;
    onMissingLabel?: string | undefined;
    onFailure?: string | undefined;
    settlement?: MessagesByName["aperture.policy.language.v1.RateLimiter.Parameters.Settlement"] | undefined;
  };
  readonly "aperture.policy.language.v1.RateLimiter.Parameters.LazySync": Message<"aperture.policy.language.v1.RateLimiter.Parameters.LazySync"> & {
    enabled: boolean;
    numSync: number;
  };
  readonly "aperture.policy.language.v1.RateLimiter.Parameters.Settlement": Message<"aperture.policy.language.v1.RateLimiter.Parameters.Settlement"> & {
    timeout?: Duration | undefined;
    unsettled?: string | undefined;
    refundStatuses: string[];
  };
  readonly "aperture.policy.language.v1.RateLimiter.RequestParameters": Message<"aperture.policy.language.v1.RateLimiter.RequestParameters"> & {
    tokensLabelKey: string;
    deniedResponseStatusCode: number;
  };
  readonly "aperture.policy.language.v1.Rego": Message<"aperture.policy.language.v1.Rego"> & {
    labels: { [key: string]: MessagesByName["aperture.policy.language.v1.Rego.LabelProperties"] };
    module: string;
  };
  readonly "aperture.policy.language.v1.Rego.LabelProperties": Message<"aperture.policy.language.v1.Rego.LabelProperties"> & {
    telemetry: boolean;
  };
  readonly "aperture.policy.language.v1.Resources": Message<"aperture.policy.language.v1.Resources"> & {
    telemetryCollectors: MessagesByName["aperture.policy.language.v1.TelemetryCollector"][];
    infraMeters: { [key: string]: MessagesByName["aperture.policy.language.v1.InfraMeter"] };
    flowControl?: MessagesByName["aperture.policy.language.v1.FlowControlResources"] | undefined;
  };
  readonly "aperture.policy.language.v1.Rollout": Message<"aperture.policy.language.v1.Rollout"> & {
    agents: number;
    applied: number;
    behind: string[];
    unknown: number;
    refused: string[];
  };
  readonly "aperture.policy.language.v1.Rule": Message<"aperture.policy.language.v1.Rule"> & {
    extractor?: MessagesByName["aperture.policy.language.v1.Extractor"] | undefined;
    telemetry: boolean;
    unreadableValue: string;
  };
  readonly "aperture.policy.language.v1.SMA": Message<"aperture.policy.language.v1.SMA"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.SMA.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.SMA.Outs"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.SMA.Parameters"] | undefined;
  };
  readonly "aperture.policy.language.v1.SMA.Ins": Message<"aperture.policy.language.v1.SMA.Ins"> & {
    input?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.SMA.Outs": Message<"aperture.policy.language.v1.SMA.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.SMA.Parameters": Message<"aperture.policy.language.v1.SMA.Parameters"> & {
    smaWindow?: Duration | undefined;
    validDuringWarmup: boolean;
  };
  readonly "aperture.policy.language.v1.Sampler": Message<"aperture.policy.language.v1.Sampler"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.Sampler.Ins"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.Sampler.Parameters"] | undefined;
    passThroughLabelValues: string[];
    passThroughLabelValuesConfigKey: string;
  };
  readonly "aperture.policy.language.v1.Sampler.Ins": Message<"aperture.policy.language.v1.Sampler.Ins"> & {
    acceptPercentage?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.Sampler.Parameters": Message<"aperture.policy.language.v1.Sampler.Parameters"> & {
    sessionLabelKey: string;
    selectors: MessagesByName["aperture.policy.language.v1.Selector"][];
    deniedResponseStatusCode: number;
    rampMode: boolean;
    onMissingLabel?: string | undefined;
    onFailure?: string | undefined;
    hash?: string | undefined;
    labelKey?: string | undefined;
  };
  readonly "aperture.policy.language.v1.ScaleInController": Message<"aperture.policy.language.v1.ScaleInController"> & {
    controller?: MessagesByName["aperture.policy.language.v1.ScaleInController.Controller"] | undefined;
    alerter?: MessagesByName["aperture.policy.language.v1.Alerter.Parameters"] | undefined;
  };
  readonly "aperture.policy.language.v1.ScaleInController.Controller": Message<"aperture.policy.language.v1.ScaleInController.Controller"> & {
    controller: { case: "gradient"; value: MessagesByName["aperture.policy.language.v1.DecreasingGradient"] } | { case: "periodic"; value: MessagesByName["aperture.policy.language.v1.PeriodicDecrease"] } | { case: undefined; value?: undefined };
  };
  readonly "aperture.policy.language.v1.ScaleOutController": Message<"aperture.policy.language.v1.ScaleOutController"> & {
    controller?: MessagesByName["aperture.policy.language.v1.ScaleOutController.Controller"] | undefined;
    alerter?: MessagesByName["aperture.policy.language.v1.Alerter.Parameters"] | undefined;
  };
  readonly "aperture.policy.language.v1.ScaleOutController.Controller": Message<"aperture.policy.language.v1.ScaleOutController.Controller"> & {
    controller: { case: "gradient"; value: MessagesByName["aperture.policy.language.v1.IncreasingGradient"] } | { case: undefined; value?: undefined };
  };
  readonly "aperture.policy.language.v1.Scheduler": Message<"aperture.policy.language.v1.Scheduler"> & {
    workloads: MessagesByName["aperture.policy.language.v1.Scheduler.Workload"][];
    defaultWorkloadParameters?: MessagesByName["aperture.policy.language.v1.Scheduler.Workload.Parameters"] | undefined;
    decisionDeadlineMargin?: Duration | undefined;
    tokensLabelKey: string;
    priorityLabelKey: string;
    deniedResponseStatusCode: number;
    workloadLabelKey: string;
    fairnessLabelKey: string;
  };
  readonly "aperture.policy.language.v1.Scheduler.Workload": Message<"aperture.policy.language.v1.Scheduler.Workload"> & {
    parameters?: MessagesByName["aperture.policy.language.v1.Scheduler.Workload.Parameters"] | undefined;
    labelMatcher?: MessagesByName["aperture.policy.language.v1.LabelMatcher"] | undefined;
    name: string;
  };
  readonly "aperture.policy.language.v1.Scheduler.Workload.Parameters": Message<"aperture.policy.language.v1.Scheduler.Workload.Parameters"> & {
    priority: number;
    queueTimeout?: Duration | undefined;
    tokens: number;
  };
  readonly "aperture.policy.language.v1.Selector": Message<"aperture.policy.language.v1.Selector"> & {
    controlPoint: string;
    agentGroup: string;
    service: string;
    labelMatcher?: MessagesByName["aperture.policy.language.v1.LabelMatcher"] | undefined;
  };
  readonly "aperture.policy.language.v1.SignalGenerator": Message<"aperture.policy.language.v1.SignalGenerator"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.SignalGenerator.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.SignalGenerator.Outs"] | undefined;
    parameters?: MessagesByName["aperture.policy.language.v1.SignalGenerator.Parameters"] | undefined;
  };
  readonly "aperture.policy.language.v1.SignalGenerator.Ins": Message<"aperture.policy.language.v1.SignalGenerator.Ins"> & {
    forward?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    backward?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    reset?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.SignalGenerator.Outs": Message<"aperture.policy.language.v1.SignalGenerator.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
    atStart?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
    atEnd?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.SignalGenerator.Parameters": Message<"aperture.policy.language.v1.SignalGenerator.Parameters"> & {
    steps: MessagesByName["aperture.policy.language.v1.SignalGenerator.Parameters.Step"][];
  };
  readonly "aperture.policy.language.v1.SignalGenerator.Parameters.Step": Message<"aperture.policy.language.v1.SignalGenerator.Parameters.Step"> & {
    targetOutput?: MessagesByName["aperture.policy.language.v1.ConstantSignal"] | undefined;
    duration?: Duration | undefined;
  };
  readonly "aperture.policy.language.v1.Switcher": Message<"aperture.policy.language.v1.Switcher"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.Switcher.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.Switcher.Outs"] | undefined;
  };
  readonly "aperture.policy.language.v1.Switcher.Ins": Message<"aperture.policy.language.v1.Switcher.Ins"> & {
    onSignal?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    offSignal?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
    switch?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.Switcher.Outs": Message<"aperture.policy.language.v1.Switcher.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.TelemetryCollector": Message<"aperture.policy.language.v1.TelemetryCollector"> & {
    agentGroup: string;
    infraMeters: { [key: string]: MessagesByName["aperture.policy.language.v1.InfraMeter"] };
  };
  readonly "aperture.policy.language.v1.UnaryOperator": Message<"aperture.policy.language.v1.UnaryOperator"> & {
    inPorts?: MessagesByName["aperture.policy.language.v1.UnaryOperator.Ins"] | undefined;
    outPorts?: MessagesByName["aperture.policy.language.v1.UnaryOperator.Outs"] | undefined;
    operator: string;
  };
  readonly "aperture.policy.language.v1.UnaryOperator.Ins": Message<"aperture.policy.language.v1.UnaryOperator.Ins"> & {
    input?: MessagesByName["aperture.policy.language.v1.InPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.UnaryOperator.Outs": Message<"aperture.policy.language.v1.UnaryOperator.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.language.v1.UpsertPolicyRequest": Message<"aperture.policy.language.v1.UpsertPolicyRequest"> & {
    policyName: string;
    policy?: MessagesByName["aperture.policy.language.v1.Policy"] | undefined;
    policyString: string;
  };
  readonly "aperture.policy.language.v1.UpsertPolicyResponse": Message<"aperture.policy.language.v1.UpsertPolicyResponse"> & {
    policyHash: string;
  };
  readonly "aperture.policy.language.v1.Variable": Message<"aperture.policy.language.v1.Variable"> & {
    outPorts?: MessagesByName["aperture.policy.language.v1.Variable.Outs"] | undefined;
    constantOutput?: MessagesByName["aperture.policy.language.v1.ConstantSignal"] | undefined;
    configKey: string;
  };
  readonly "aperture.policy.language.v1.Variable.Outs": Message<"aperture.policy.language.v1.Variable.Outs"> & {
    output?: MessagesByName["aperture.policy.language.v1.OutPort"] | undefined;
  };
  readonly "aperture.policy.sync.v1.ClassifierAttributes": Message<"aperture.policy.sync.v1.ClassifierAttributes"> & {
    policyName: string;
    policyHash: string;
    classifierIndex: bigint;
  };
  readonly "aperture.policy.sync.v1.ClassifierWrapper": Message<"aperture.policy.sync.v1.ClassifierWrapper"> & {
    classifierAttributes?: MessagesByName["aperture.policy.sync.v1.ClassifierAttributes"] | undefined;
    classifier?: MessagesByName["aperture.policy.language.v1.Classifier"] | undefined;
  };
  readonly "aperture.policy.sync.v1.CommonAttributes": Message<"aperture.policy.sync.v1.CommonAttributes"> & {
    policyName: string;
    policyHash: string;
    componentId: string;
  };
  readonly "aperture.policy.sync.v1.ConcurrencyLimiterDecision": Message<"aperture.policy.sync.v1.ConcurrencyLimiterDecision"> & {
    maxConcurrency: number;
    passThrough: boolean;
    failureMode?: string | undefined;
  };
  readonly "aperture.policy.sync.v1.ConcurrencyLimiterDecisionWrapper": Message<"aperture.policy.sync.v1.ConcurrencyLimiterDecisionWrapper"> & {
    commonAttributes?: MessagesByName["aperture.policy.sync.v1.CommonAttributes"] | undefined;
    concurrencyLimiterDecision?: MessagesByName["aperture.policy.sync.v1.ConcurrencyLimiterDecision"] | undefined;
  };
  readonly "aperture.policy.sync.v1.ConcurrencyLimiterWrapper": Message<"aperture.policy.sync.v1.ConcurrencyLimiterWrapper"> & {
    commonAttributes?: MessagesByName["aperture.policy.sync.v1.CommonAttributes"] | undefined;
    concurrencyLimiter?: MessagesByName["aperture.policy.language.v1.ConcurrencyLimiter"] | undefined;
  };
  readonly "aperture.policy.sync.v1.ConcurrencySchedulerWrapper": Message<"aperture.policy.sync.v1.ConcurrencySchedulerWrapper"> & {
    commonAttributes?: MessagesByName["aperture.policy.sync.v1.CommonAttributes"] | undefined;
    concurrencyScheduler?: MessagesByName["aperture.policy.language.v1.ConcurrencyScheduler"] | undefined;
  };
  readonly "aperture.policy.sync.v1.FluxMeterWrapper": Message<"aperture.policy.sync.v1.FluxMeterWrapper"> & {
    fluxMeter?: MessagesByName["aperture.policy.language.v1.FluxMeter"] | undefined;
    fluxMeterName: string;
    policyName: string;
  };
  readonly "aperture.policy.sync.v1.InfraMeterWrapper": Message<"aperture.policy.sync.v1.InfraMeterWrapper"> & {
    infraMeter?: MessagesByName["aperture.policy.language.v1.InfraMeter"] | undefined;
    infraMeterName: string;
    policyName: string;
  };
  readonly "aperture.policy.sync.v1.LoadDecision": Message<"aperture.policy.sync.v1.LoadDecision"> & {
    tickInfo?: MessagesByName["aperture.policy.sync.v1.TickInfo"] | undefined;
    loadMultiplier: number;
    passThrough: boolean;
    tokensByWorkloadIndex: { [key: string]: number };
    validUntil?: Timestamp | undefined;
  };
  readonly "aperture.policy.sync.v1.LoadDecisionWrapper": Message<"aperture.policy.sync.v1.LoadDecisionWrapper"> & {
    commonAttributes?: MessagesByName["aperture.policy.sync.v1.CommonAttributes"] | undefined;
    loadDecision?: MessagesByName["aperture.policy.sync.v1.LoadDecision"] | undefined;
  };
  readonly "aperture.policy.sync.v1.LoadSchedulerWrapper": Message<"aperture.policy.sync.v1.LoadSchedulerWrapper"> & {
    commonAttributes?: MessagesByName["aperture.policy.sync.v1.CommonAttributes"] | undefined;
    loadScheduler?: MessagesByName["aperture.policy.language.v1.LoadScheduler"] | undefined;
  };
  readonly "aperture.policy.sync.v1.PodScalerWrapper": Message<"aperture.policy.sync.v1.PodScalerWrapper"> & {
    commonAttributes?: MessagesByName["aperture.policy.sync.v1.CommonAttributes"] | undefined;
    podScaler?: MessagesByName["aperture.policy.language.v1.PodScaler"] | undefined;
  };
  readonly "aperture.policy.sync.v1.PolicyWrapper": Message<"aperture.policy.sync.v1.PolicyWrapper"> & {
    commonAttributes?: MessagesByName["aperture.policy.sync.v1.CommonAttributes"] | undefined;
    policy?: MessagesByName["aperture.policy.language.v1.Policy"] | undefined;
    source: number;
  };
  readonly "aperture.policy.sync.v1.PolicyWrappers": Message<"aperture.policy.sync.v1.PolicyWrappers"> & {
    policyWrappers: { [key: string]: MessagesByName["aperture.policy.sync.v1.PolicyWrapper"] };
  };
  readonly "aperture.policy.sync.v1.QuotaSchedulerWrapper": Message<"aperture.policy.sync.v1.QuotaSchedulerWrapper"> & {
    commonAttributes?: MessagesByName["aperture.policy.sync.v1.CommonAttributes"] | undefined;
    quotaScheduler?: MessagesByName["aperture.policy.language.v1.QuotaScheduler"] | undefined;
  };
  readonly "aperture.policy.sync.v1.RateLimiterDecision": Message<"aperture.policy.sync.v1.RateLimiterDecision"> & {
    bucketCapacity: number;
    fillAmount: number;
    passThrough: boolean;
    failureMode?: string | undefined;
  };
  readonly "aperture.policy.sync.v1.RateLimiterDecisionWrapper": Message<"aperture.policy.sync.v1.RateLimiterDecisionWrapper"> & {
    commonAttributes?: MessagesByName["aperture.policy.sync.v1.CommonAttributes"] | undefined;
    rateLimiterDecision?: MessagesByName["aperture.policy.sync.v1.RateLimiterDecision"] | undefined;
  };
  readonly "aperture.policy.sync.v1.RateLimiterWrapper": Message<"aperture.policy.sync.v1.RateLimiterWrapper"> & {
    commonAttributes?: MessagesByName["aperture.policy.sync.v1.CommonAttributes"] | undefined;
    rateLimiter?: MessagesByName["aperture.policy.language.v1.RateLimiter"] | undefined;
  };
  readonly "aperture.policy.sync.v1.SamplerDecision": Message<"aperture.policy.sync.v1.SamplerDecision"> & {
    acceptPercentage: number;
    passThroughLabelValues: string[];
    failureMode?: string | undefined;
  };
  readonly "aperture.policy.sync.v1.SamplerDecisionWrapper": Message<"aperture.policy.sync.v1.SamplerDecisionWrapper"> & {
    commonAttributes?: MessagesByName["aperture.policy.sync.v1.CommonAttributes"] | undefined;
    samplerDecision?: MessagesByName["aperture.policy.sync.v1.SamplerDecision"] | undefined;
  };
  readonly "aperture.policy.sync.v1.SamplerWrapper": Message<"aperture.policy.sync.v1.SamplerWrapper"> & {
    commonAttributes?: MessagesByName["aperture.policy.sync.v1.CommonAttributes"] | undefined;
    sampler?: MessagesByName["aperture.policy.language.v1.Sampler"] | undefined;
  };
  readonly "aperture.policy.sync.v1.ScaleDecision": Message<"aperture.policy.sync.v1.ScaleDecision"> & {
    desiredReplicas: number;
  };
  readonly "aperture.policy.sync.v1.ScaleDecisionWrapper": Message<"aperture.policy.sync.v1.ScaleDecisionWrapper"> & {
    commonAttributes?: MessagesByName["aperture.policy.sync.v1.CommonAttributes"] | undefined;
    scaleDecision?: MessagesByName["aperture.policy.sync.v1.ScaleDecision"] | undefined;
  };
  readonly "aperture.policy.sync.v1.ScaleStatus": Message<"aperture.policy.sync.v1.ScaleStatus"> & {
    configuredReplicas: number;
    actualReplicas: number;
  };
  readonly "aperture.policy.sync.v1.ScaleStatusWrapper": Message<"aperture.policy.sync.v1.ScaleStatusWrapper"> & {
    commonAttributes?: MessagesByName["aperture.policy.sync.v1.CommonAttributes"] | undefined;
    scaleStatus?: MessagesByName["aperture.policy.sync.v1.ScaleStatus"] | undefined;
  };
  readonly "aperture.policy.sync.v1.TelemetryCollectorWrapper": Message<"aperture.policy.sync.v1.TelemetryCollectorWrapper"> & {
    telemetryCollector?: MessagesByName["aperture.policy.language.v1.TelemetryCollector"] | undefined;
    telemetryCollectorId: bigint;
    policyName: string;
  };
  readonly "aperture.policy.sync.v1.TickInfo": Message<"aperture.policy.sync.v1.TickInfo"> & {
    timestamp?: Timestamp | undefined;
    nextTimestamp?: Timestamp | undefined;
    tick: bigint;
    interval?: Duration | undefined;
  };
  readonly "aperture.status.v1.GroupStatus": Message<"aperture.status.v1.GroupStatus"> & {
    status?: MessagesByName["aperture.status.v1.Status"] | undefined;
    groups: { [key: string]: MessagesByName["aperture.status.v1.GroupStatus"] };
  };
  readonly "aperture.status.v1.GroupStatusRequest": Message<"aperture.status.v1.GroupStatusRequest"> & {
    path: string;
  };
  readonly "aperture.status.v1.Status": Message<"aperture.status.v1.Status"> & {
    message?: Any | undefined;
    error?: MessagesByName["aperture.status.v1.Status.Error"] | undefined;
    timestamp?: Timestamp | undefined;
  };
  readonly "aperture.status.v1.Status.Error": Message<"aperture.status.v1.Status.Error"> & {
    message: string;
  };
  readonly "envoy.config.core.v3.Address": Message<"envoy.config.core.v3.Address"> & {
    address: { case: "socketAddress"; value: MessagesByName["envoy.config.core.v3.SocketAddress"] } | { case: "pipe"; value: MessagesByName["envoy.config.core.v3.Pipe"] } | { case: "envoyInternalAddress"; value: MessagesByName["envoy.config.core.v3.EnvoyInternalAddress"] } | { case: undefined; value?: undefined };
  };
  readonly "envoy.config.core.v3.AsyncDataSource": Message<"envoy.config.core.v3.AsyncDataSource"> & {
    specifier: { case: "local"; value: MessagesByName["envoy.config.core.v3.DataSource"] } | { case: "remote"; value: MessagesByName["envoy.config.core.v3.RemoteDataSource"] } | { case: undefined; value?: undefined };
  };
  readonly "envoy.config.core.v3.BackoffStrategy": Message<"envoy.config.core.v3.BackoffStrategy"> & {
    baseInterval?: Duration | undefined;
    maxInterval?: Duration | undefined;
  };
  readonly "envoy.config.core.v3.BindConfig": Message<"envoy.config.core.v3.BindConfig"> & {
    sourceAddress?: MessagesByName["envoy.config.core.v3.SocketAddress"] | undefined;
    freebind?: boolean | undefined;
    socketOptions: MessagesByName["envoy.config.core.v3.SocketOption"][];
    extraSourceAddresses: MessagesByName["envoy.config.core.v3.ExtraSourceAddress"][];
    additionalSourceAddresses: MessagesByName["envoy.config.core.v3.SocketAddress"][];
    localAddressSelector?: MessagesByName["envoy.config.core.v3.TypedExtensionConfig"] | undefined;
  };
  readonly "envoy.config.core.v3.BuildVersion": Message<"envoy.config.core.v3.BuildVersion"> & {
    version?: MessagesByName["envoy.type.v3.SemanticVersion"] | undefined;
    metadata?: JsonObject | undefined;
  };
  readonly "envoy.config.core.v3.CidrRange": Message<"envoy.config.core.v3.CidrRange"> & {
    addressPrefix: string;
    prefixLen?: number | undefined;
  };
  readonly "envoy.config.core.v3.ControlPlane": Message<"envoy.config.core.v3.ControlPlane"> & {
    identifier: string;
  };
  readonly "envoy.config.core.v3.DataSource": Message<"envoy.config.core.v3.DataSource"> & {
    specifier: { case: "filename"; value: string } | { case: "inlineBytes"; value: Uint8Array } | { case: "inlineString"; value: string } | { case: "environmentVariable"; value: string } | { case: undefined; value?: undefined };
    watchedDirectory?: MessagesByName["envoy.config.core.v3.WatchedDirectory"] | undefined;
  };
  readonly "envoy.config.core.v3.EnvoyInternalAddress": Message<"envoy.config.core.v3.EnvoyInternalAddress"> & {
    addressNameSpecifier: { case: "serverListenerName"; value: string } | { case: undefined; value?: undefined };
    endpointId: string;
  };
  readonly "envoy.config.core.v3.Extension": Message<"envoy.config.core.v3.Extension"> & {
    name: string;
    category: string;
    typeDescriptor: string;
    version?: MessagesByName["envoy.config.core.v3.BuildVersion"] | undefined;
    disabled: boolean;
    typeUrls: string[];
  };
  readonly "envoy.config.core.v3.ExtraSourceAddress": Message<"envoy.config.core.v3.ExtraSourceAddress"> & {
    address?: MessagesByName["envoy.config.core.v3.SocketAddress"] | undefined;
    socketOptions?: MessagesByName["envoy.config.core.v3.SocketOptionsOverride"] | undefined;
  };
  readonly "envoy.config.core.v3.HeaderMap": Message<"envoy.config.core.v3.HeaderMap"> & {
    headers: MessagesByName["envoy.config.core.v3.HeaderValue"][];
  };
  readonly "envoy.config.core.v3.HeaderValue": Message<"envoy.config.core.v3.HeaderValue"> & {
    key: string;
    value: string;
    rawValue: Uint8Array;
  };
  readonly "envoy.config.core.v3.HeaderValueOption": Message<"envoy.config.core.v3.HeaderValueOption"> & {
    header?: MessagesByName["envoy.config.core.v3.HeaderValue"] | undefined;
    append?: boolean | undefined;
    appendAction: number;
    keepEmptyValue: boolean;
  };
  readonly "envoy.config.core.v3.HttpUri": Message<"envoy.config.core.v3.HttpUri"> & {
    uri: string;
    httpUpstreamType: { case: "cluster"; value: string } | { case: undefined; value?: undefined };
    timeout?: Duration | undefined;
  };
  readonly "envoy.config.core.v3.KeyValue": Message<"envoy.config.core.v3.KeyValue"> & {
    key: string;
    value: Uint8Array;
  };
  readonly "envoy.config.core.v3.KeyValueAppend": Message<"envoy.config.core.v3.KeyValueAppend"> & {
    entry?: MessagesByName["envoy.config.core.v3.KeyValue"] | undefined;
    action: number;
  };
  readonly "envoy.config.core.v3.KeyValueMutation": Message<"envoy.config.core.v3.KeyValueMutation"> & {
    append?: MessagesByName["envoy.config.core.v3.KeyValueAppend"] | undefined;
    remove: string;
  };
  readonly "envoy.config.core.v3.Locality": Message<"envoy.config.core.v3.Locality"> & {
    region: string;
    zone: string;
    subZone: string;
  };
  readonly "envoy.config.core.v3.Metadata": Message<"envoy.config.core.v3.Metadata"> & {
    filterMetadata: { [key: string]: JsonObject };
    typedFilterMetadata: { [key: string]: Any };
  };
  readonly "envoy.config.core.v3.Node": Message<"envoy.config.core.v3.Node"> & {
    id: string;
    cluster: string;
    metadata?: JsonObject | undefined;
    dynamicParameters: { [key: string]: MessagesByName["xds.core.v3.ContextParams"] };
    locality?: MessagesByName["envoy.config.core.v3.Locality"] | undefined;
    userAgentName: string;
    userAgentVersionType: { case: "userAgentVersion"; value: string } | { case: "userAgentBuildVersion"; value: MessagesByName["envoy.config.core.v3.BuildVersion"] } | { case: undefined; value?: undefined };
    extensions: MessagesByName["envoy.config.core.v3.Extension"][];
    clientFeatures: string[];
    listeningAddresses: MessagesByName["envoy.config.core.v3.Address"][];
  };
  readonly "envoy.config.core.v3.Pipe": Message<"envoy.config.core.v3.Pipe"> & {
    path: string;
    mode: number;
  };
  readonly "envoy.config.core.v3.QueryParameter": Message<"envoy.config.core.v3.QueryParameter"> & {
    key: string;
    value: string;
  };
  readonly "envoy.config.core.v3.RemoteDataSource": Message<"envoy.config.core.v3.RemoteDataSource"> & {
    httpUri?: MessagesByName["envoy.config.core.v3.HttpUri"] | undefined;
    sha256: string;
    retryPolicy?: MessagesByName["envoy.config.core.v3.RetryPolicy"] | undefined;
  };
  readonly "envoy.config.core.v3.RetryPolicy": Message<"envoy.config.core.v3.RetryPolicy"> & {
    retryBackOff?: MessagesByName["envoy.config.core.v3.BackoffStrategy"] | undefined;
    numRetries?: number | undefined;
    retryOn: string;
    retryPriority?: MessagesByName["envoy.config.core.v3.RetryPolicy.RetryPriority"] | undefined;
    retryHostPredicate: MessagesByName["envoy.config.core.v3.RetryPolicy.RetryHostPredicate"][];
    hostSelectionRetryMaxAttempts: bigint;
  };
  readonly "envoy.config.core.v3.RetryPolicy.RetryHostPredicate": Message<"envoy.config.core.v3.RetryPolicy.RetryHostPredicate"> & {
    name: string;
    configType: { case: "typedConfig"; value: Any } | { case: undefined; value?: undefined };
  };
  readonly "envoy.config.core.v3.RetryPolicy.RetryPriority": Message<"envoy.config.core.v3.RetryPolicy.RetryPriority"> & {
    name: string;
    configType: { case: "typedConfig"; value: Any } | { case: undefined; value?: undefined };
  };
  readonly "envoy.config.core.v3.RuntimeDouble": Message<"envoy.config.core.v3.RuntimeDouble"> & {
    defaultValue: number;
    runtimeKey: string;
  };
  readonly "envoy.config.core.v3.RuntimeFeatureFlag": Message<"envoy.config.core.v3.RuntimeFeatureFlag"> & {
    defaultValue?: boolean | undefined;
    runtimeKey: string;
  };
  readonly "envoy.config.core.v3.RuntimeFractionalPercent": Message<"envoy.config.core.v3.RuntimeFractionalPercent"> & {
    defaultValue?: MessagesByName["envoy.type.v3.FractionalPercent"] | undefined;
    runtimeKey: string;
  };
  readonly "envoy.config.core.v3.RuntimePercent": Message<"envoy.config.core.v3.RuntimePercent"> & {
    defaultValue?: MessagesByName["envoy.type.v3.Percent"] | undefined;
    runtimeKey: string;
  };
  readonly "envoy.config.core.v3.RuntimeUInt32": Message<"envoy.config.core.v3.RuntimeUInt32"> & {
    defaultValue: number;
    runtimeKey: string;
  };
  readonly "envoy.config.core.v3.SocketAddress": Message<"envoy.config.core.v3.SocketAddress"> & {
    protocol: number;
    address: string;
    portSpecifier: { case: "portValue"; value: number } | { case: "namedPort"; value: string } | { case: undefined; value?: undefined };
    resolverName: string;
    ipv4Compat: boolean;
  };
  readonly "envoy.config.core.v3.SocketOption": Message<"envoy.config.core.v3.SocketOption"> & {
    description: string;
    level: bigint;
    name: bigint;
    value: { case: "intValue"; value: bigint } | { case: "bufValue"; value: Uint8Array } | { case: undefined; value?: undefined };
    state: number;
  };
  readonly "envoy.config.core.v3.SocketOptionsOverride": Message<"envoy.config.core.v3.SocketOptionsOverride"> & {
    socketOptions: MessagesByName["envoy.config.core.v3.SocketOption"][];
  };
  readonly "envoy.config.core.v3.TcpKeepalive": Message<"envoy.config.core.v3.TcpKeepalive"> & {
    keepaliveProbes?: number | undefined;
    keepaliveTime?: number | undefined;
    keepaliveInterval?: number | undefined;
  };
  readonly "envoy.config.core.v3.TransportSocket": Message<"envoy.config.core.v3.TransportSocket"> & {
    name: string;
    configType: { case: "typedConfig"; value: Any } | { case: undefined; value?: undefined };
  };
  readonly "envoy.config.core.v3.TypedExtensionConfig": Message<"envoy.config.core.v3.TypedExtensionConfig"> & {
    name: string;
    typedConfig?: Any | undefined;
  };
  readonly "envoy.config.core.v3.WatchedDirectory": Message<"envoy.config.core.v3.WatchedDirectory"> & {
    path: string;
  };
  readonly "envoy.data.accesslog.v3.AccessLogCommon": Message<"envoy.data.accesslog.v3.AccessLogCommon"> & {
    sampleRate: number;
    downstreamRemoteAddress?: MessagesByName["envoy.config.core.v3.Address"] | undefined;
    downstreamLocalAddress?: MessagesByName["envoy.config.core.v3.Address"] | undefined;
    tlsProperties?: MessagesByName["envoy.data.accesslog.v3.TLSProperties"] | undefined;
    startTime?: Timestamp | undefined;
    timeToLastRxByte?: Duration | undefined;
    timeToFirstUpstreamTxByte?: Duration | undefined;
    timeToLastUpstreamTxByte?: Duration | undefined;
    timeToFirstUpstreamRxByte?: Duration | undefined;
    timeToLastUpstreamRxByte?: Duration | undefined;
    timeToFirstDownstreamTxByte?: Duration | undefined;
    timeToLastDownstreamTxByte?: Duration | undefined;
    upstreamRemoteAddress?: MessagesByName["envoy.config.core.v3.Address"] | undefined;
    upstreamLocalAddress?: MessagesByName["envoy.config.core.v3.Address"] | undefined;
    upstreamCluster: string;
    responseFlags?: MessagesByName["envoy.data.accesslog.v3.ResponseFlags"] | undefined;
    metadata?: MessagesByName["envoy.config.core.v3.Metadata"] | undefined;
    upstreamTransportFailureReason: string;
    routeName: string;
    downstreamDirectRemoteAddress?: MessagesByName["envoy.config.core.v3.Address"] | undefined;
    filterStateObjects: { [key: string]: Any };
    customTags: { [key: string]: string };
    duration?: Duration | undefined;
    upstreamRequestAttemptCount: number;
    connectionTerminationDetails: string;
    streamId: string;
    intermediateLogEntry: boolean;
    downstreamTransportFailureReason: string;
    downstreamWireBytesSent: bigint;
    downstreamWireBytesReceived: bigint;
    upstreamWireBytesSent: bigint;
    upstreamWireBytesReceived: bigint;
    accessLogType: number;
  };
  readonly "envoy.data.accesslog.v3.ConnectionProperties": Message<"envoy.data.accesslog.v3.ConnectionProperties"> & {
    receivedBytes: bigint;
    sentBytes: bigint;
  };
  readonly "envoy.data.accesslog.v3.HTTPAccessLogEntry": Message<"envoy.data.accesslog.v3.HTTPAccessLogEntry"> & {
    commonProperties?: MessagesByName["envoy.data.accesslog.v3.AccessLogCommon"] | undefined;
    protocolVersion: number;
    request?: MessagesByName["envoy.data.accesslog.v3.HTTPRequestProperties"] | undefined;
    response?: MessagesByName["envoy.data.accesslog.v3.HTTPResponseProperties"] | undefined;
  };
  readonly "envoy.data.accesslog.v3.HTTPRequestProperties": Message<"envoy.data.accesslog.v3.HTTPRequestProperties"> & {
    requestMethod: number;
    scheme: string;
    authority: string;
    port?: number | undefined;
    path: string;
    userAgent: string;
    referer: string;
    forwardedFor: string;
    requestId: string;
    originalPath: string;
    requestHeadersBytes: bigint;
    requestBodyBytes: bigint;
    requestHeaders: { [key: string]: string };
    upstreamHeaderBytesSent: bigint;
    downstreamHeaderBytesReceived: bigint;
  };
  readonly "envoy.data.accesslog.v3.HTTPResponseProperties": Message<"envoy.data.accesslog.v3.HTTPResponseProperties"> & {
    responseCode?: number | undefined;
    responseHeadersBytes: bigint;
    responseBodyBytes: bigint;
    responseHeaders: { [key: string]: string };
    responseTrailers: { [key: string]: string };
    responseCodeDetails: string;
    upstreamHeaderBytesReceived: bigint;
    downstreamHeaderBytesSent: bigint;
  };
  readonly "envoy.data.accesslog.v3.ResponseFlags": Message<"envoy.data.accesslog.v3.ResponseFlags"> & {
    failedLocalHealthcheck: boolean;
    noHealthyUpstream: boolean;
    upstreamRequestTimeout: boolean;
    localReset: boolean;
    upstreamRemoteReset: boolean;
    upstreamConnectionFailure: boolean;
    upstreamConnectionTermination: boolean;
    upstreamOverflow: boolean;
    noRouteFound: boolean;
    delayInjected: boolean;
    faultInjected: boolean;
    rateLimited: boolean;
    unauthorizedDetails?: MessagesByName["envoy.data.accesslog.v3.ResponseFlags.Unauthorized"] | undefined;
    rateLimitServiceError: boolean;
    downstreamConnectionTermination: boolean;
    upstreamRetryLimitExceeded: boolean;
    streamIdleTimeout: boolean;
    invalidEnvoyRequestHeaders: boolean;
    downstreamProtocolError: boolean;
    upstreamMaxStreamDurationReached: boolean;
    responseFromCacheFilter: boolean;
    noFilterConfigFound: boolean;
    durationTimeout: boolean;
    upstreamProtocolError: boolean;
    noClusterFound: boolean;
    overloadManager: boolean;
    dnsResolutionFailure: boolean;
    downstreamRemoteReset: boolean;
  };
  readonly "envoy.data.accesslog.v3.ResponseFlags.Unauthorized": Message<"envoy.data.accesslog.v3.ResponseFlags.Unauthorized"> & {
    reason: number;
  };
  readonly "envoy.data.accesslog.v3.TCPAccessLogEntry": Message<"envoy.data.accesslog.v3.TCPAccessLogEntry"> & {
    commonProperties?: MessagesByName["envoy.data.accesslog.v3.AccessLogCommon"] | undefined;
    connectionProperties?: MessagesByName["envoy.data.accesslog.v3.ConnectionProperties"] | undefined;
  };
  readonly "envoy.data.accesslog.v3.TLSProperties": Message<"envoy.data.accesslog.v3.TLSProperties"> & {
    tlsVersion: number;
    tlsCipherSuite?: number | undefined;
    tlsSniHostname: string;
    localCertificateProperties?: MessagesByName["envoy.data.accesslog.v3.TLSProperties.CertificateProperties"] | undefined;
    peerCertificateProperties?: MessagesByName["envoy.data.accesslog.v3.TLSProperties.CertificateProperties"] | undefined;
    tlsSessionId: string;
    ja3Fingerprint: string;
  };
  readonly "envoy.data.accesslog.v3.TLSProperties.CertificateProperties": Message<"envoy.data.accesslog.v3.TLSProperties.CertificateProperties"> & {
    subjectAltName: MessagesByName["envoy.data.accesslog.v3.TLSProperties.CertificateProperties.SubjectAltName"][];
    subject: string;
    issuer: string;
  };
  readonly "envoy.data.accesslog.v3.TLSProperties.CertificateProperties.SubjectAltName": Message<"envoy.data.accesslog.v3.TLSProperties.CertificateProperties.SubjectAltName"> & {
    san: { case: "uri"; value: string } | { case: "dns"; value: string } | { case: undefined; value?: undefined };
  };
  readonly "envoy.service.accesslog.v3.StreamAccessLogsMessage": Message<"envoy.service.accesslog.v3.StreamAccessLogsMessage"> & {
    identifier?: MessagesByName["envoy.service.accesslog.v3.StreamAccessLogsMessage.Identifier"] | undefined;
    logEntries: { case: "httpLogs"; value: MessagesByName["envoy.service.accesslog.v3.StreamAccessLogsMessage.HTTPAccessLogEntries"] } | { case: "tcpLogs"; value: MessagesByName["envoy.service.accesslog.v3.StreamAccessLogsMessage.TCPAccessLogEntries"] } | { case: undefined; value?: undefined };
  };
  readonly "envoy.service.accesslog.v3.StreamAccessLogsMessage.HTTPAccessLogEntries": Message<"envoy.service.accesslog.v3.StreamAccessLogsMessage.HTTPAccessLogEntries"> & {
    logEntry: MessagesByName["envoy.data.accesslog.v3.HTTPAccessLogEntry"][];
  };
  readonly "envoy.service.accesslog.v3.StreamAccessLogsMessage.Identifier": Message<"envoy.service.accesslog.v3.StreamAccessLogsMessage.Identifier"> & {
    node?: MessagesByName["envoy.config.core.v3.Node"] | undefined;
    logName: string;
  };
  readonly "envoy.service.accesslog.v3.StreamAccessLogsMessage.TCPAccessLogEntries": Message<"envoy.service.accesslog.v3.StreamAccessLogsMessage.TCPAccessLogEntries"> & {
    logEntry: MessagesByName["envoy.data.accesslog.v3.TCPAccessLogEntry"][];
  };
  readonly "envoy.service.accesslog.v3.StreamAccessLogsResponse": Message<"envoy.service.accesslog.v3.StreamAccessLogsResponse">;
  readonly "envoy.service.auth.v3.AttributeContext": Message<"envoy.service.auth.v3.AttributeContext"> & {
    source?: MessagesByName["envoy.service.auth.v3.AttributeContext.Peer"] | undefined;
    destination?: MessagesByName["envoy.service.auth.v3.AttributeContext.Peer"] | undefined;
    request?: MessagesByName["envoy.service.auth.v3.AttributeContext.Request"] | undefined;
    contextExtensions: { [key: string]: string };
    metadataContext?: MessagesByName["envoy.config.core.v3.Metadata"] | undefined;
    routeMetadataContext?: MessagesByName["envoy.config.core.v3.Metadata"] | undefined;
    tlsSession?: MessagesByName["envoy.service.auth.v3.AttributeContext.TLSSession"] | undefined;
  };
  readonly "envoy.service.auth.v3.AttributeContext.HttpRequest": Message<"envoy.service.auth.v3.AttributeContext.HttpRequest"> & {
    id: string;
    method: string;
    headers: { [key: string]: string };
    headerMap?: MessagesByName["envoy.config.core.v3.HeaderMap"] | undefined;
    path: string;
    host: string;
    scheme: string;
    query: string;
    fragment: string;
    size: bigint;
    protocol: string;
    body: string;
    rawBody: Uint8Array;
  };
  readonly "envoy.service.auth.v3.AttributeContext.Peer": Message<"envoy.service.auth.v3.AttributeContext.Peer"> & {
    address?: MessagesByName["envoy.config.core.v3.Address"] | undefined;
    service: string;
    labels: { [key: string]: string };
    principal: string;
    certificate: string;
  };
  readonly "envoy.service.auth.v3.AttributeContext.Request": Message<"envoy.service.auth.v3.AttributeContext.Request"> & {
    time?: Timestamp | undefined;
    http?: MessagesByName["envoy.service.auth.v3.AttributeContext.HttpRequest"] | undefined;
  };
  readonly "envoy.service.auth.v3.AttributeContext.TLSSession": Message<"envoy.service.auth.v3.AttributeContext.TLSSession"> & {
    sni: string;
  };
  readonly "envoy.service.auth.v3.CheckRequest": Message<"envoy.service.auth.v3.CheckRequest"> & {
    attributes?: MessagesByName["envoy.service.auth.v3.AttributeContext"] | undefined;
  };
  readonly "envoy.service.auth.v3.CheckResponse": Message<"envoy.service.auth.v3.CheckResponse"> & {
    status?: MessagesByName["google.rpc.Status"] | undefined;
    httpResponse: { case: "deniedResponse"; value: MessagesByName["envoy.service.auth.v3.DeniedHttpResponse"] } | { case: "okResponse"; value: MessagesByName["envoy.service.auth.v3.OkHttpResponse"] } | { case: undefined; value?: undefined };
    dynamicMetadata?: JsonObject | undefined;
  };
  readonly "envoy.service.auth.v3.DeniedHttpResponse": Message<"envoy.service.auth.v3.DeniedHttpResponse"> & {
    status?: MessagesByName["envoy.type.v3.HttpStatus"] | undefined;
    headers: MessagesByName["envoy.config.core.v3.HeaderValueOption"][];
    body: string;
  };
  readonly "envoy.service.auth.v3.OkHttpResponse": Message<"envoy.service.auth.v3.OkHttpResponse"> & {
    headers: MessagesByName["envoy.config.core.v3.HeaderValueOption"][];
    headersToRemove: string[];
    dynamicMetadata?: JsonObject | undefined;
    responseHeadersToAdd: MessagesByName["envoy.config.core.v3.HeaderValueOption"][];
    queryParametersToSet: MessagesByName["envoy.config.core.v3.QueryParameter"][];
    queryParametersToRemove: string[];
  };
  readonly "envoy.type.v3.FractionalPercent": Message<"envoy.type.v3.FractionalPercent"> & {
    numerator: number;
    denominator: number;
  };
  readonly "envoy.type.v3.HttpStatus": Message<"envoy.type.v3.HttpStatus"> & {
    code: number;
  };
  readonly "envoy.type.v3.Percent": Message<"envoy.type.v3.Percent"> & {
    value: number;
  };
  readonly "envoy.type.v3.SemanticVersion": Message<"envoy.type.v3.SemanticVersion"> & {
    majorNumber: number;
    minorNumber: number;
    patch: number;
  };
  readonly "etcdserverpb.AuthenticateRequest": Message<"etcdserverpb.AuthenticateRequest"> & {
    name: string;
    password: string;
  };
  readonly "etcdserverpb.AuthenticateResponse": Message<"etcdserverpb.AuthenticateResponse"> & {
    header?: MessagesByName["etcdserverpb.ResponseHeader"] | undefined;
    token: string;
  };
  readonly "etcdserverpb.Compare": Message<"etcdserverpb.Compare"> & {
    result: number;
    target: number;
    key: Uint8Array;
    targetUnion: { case: "version"; value: bigint } | { case: "createRevision"; value: bigint } | { case: "modRevision"; value: bigint } | { case: undefined; value?: undefined };
  };
  readonly "etcdserverpb.DeleteRangeRequest": Message<"etcdserverpb.DeleteRangeRequest"> & {
    key: Uint8Array;
    rangeEnd: Uint8Array;
  };
  readonly "etcdserverpb.DeleteRangeResponse": Message<"etcdserverpb.DeleteRangeResponse"> & {
    header?: MessagesByName["etcdserverpb.ResponseHeader"] | undefined;
    deleted: bigint;
  };
  readonly "etcdserverpb.LeaseGrantRequest": Message<"etcdserverpb.LeaseGrantRequest"> & {
    ttl: bigint;
    id: bigint;
  };
  readonly "etcdserverpb.LeaseGrantResponse": Message<"etcdserverpb.LeaseGrantResponse"> & {
    header?: MessagesByName["etcdserverpb.ResponseHeader"] | undefined;
    id: bigint;
    ttl: bigint;
  };
  readonly "etcdserverpb.LeaseKeepAliveRequest": Message<"etcdserverpb.LeaseKeepAliveRequest"> & {
    id: bigint;
  };
  readonly "etcdserverpb.LeaseKeepAliveResponse": Message<"etcdserverpb.LeaseKeepAliveResponse"> & {
    header?: MessagesByName["etcdserverpb.ResponseHeader"] | undefined;
    id: bigint;
    ttl: bigint;
  };
  readonly "etcdserverpb.LeaseRevokeRequest": Message<"etcdserverpb.LeaseRevokeRequest"> & {
    id: bigint;
  };
  readonly "etcdserverpb.LeaseRevokeResponse": Message<"etcdserverpb.LeaseRevokeResponse"> & {
    header?: MessagesByName["etcdserverpb.ResponseHeader"] | undefined;
  };
  readonly "etcdserverpb.PutRequest": Message<"etcdserverpb.PutRequest"> & {
    key: Uint8Array;
    value: Uint8Array;
    lease: bigint;
  };
  readonly "etcdserverpb.PutResponse": Message<"etcdserverpb.PutResponse"> & {
    header?: MessagesByName["etcdserverpb.ResponseHeader"] | undefined;
  };
  readonly "etcdserverpb.RangeRequest": Message<"etcdserverpb.RangeRequest"> & {
    key: Uint8Array;
    rangeEnd: Uint8Array;
    limit: bigint;
    revision: bigint;
    sortOrder: number;
    sortTarget: number;
    serializable: boolean;
    keysOnly: boolean;
    countOnly: boolean;
    maxCreateRevision: bigint;
  };
  readonly "etcdserverpb.RangeResponse": Message<"etcdserverpb.RangeResponse"> & {
    header?: MessagesByName["etcdserverpb.ResponseHeader"] | undefined;
    kvs: MessagesByName["mvccpb.KeyValue"][];
    more: boolean;
    count: bigint;
  };
  readonly "etcdserverpb.RequestOp": Message<"etcdserverpb.RequestOp"> & {
    request: { case: "requestRange"; value: MessagesByName["etcdserverpb.RangeRequest"] } | { case: "requestPut"; value: MessagesByName["etcdserverpb.PutRequest"] } | { case: "requestDeleteRange"; value: MessagesByName["etcdserverpb.DeleteRangeRequest"] } | { case: undefined; value?: undefined };
  };
  readonly "etcdserverpb.ResponseHeader": Message<"etcdserverpb.ResponseHeader"> & {
    clusterId: bigint;
    memberId: bigint;
    revision: bigint;
    raftTerm: bigint;
  };
  readonly "etcdserverpb.ResponseOp": Message<"etcdserverpb.ResponseOp"> & {
    response: { case: "responseRange"; value: MessagesByName["etcdserverpb.RangeResponse"] } | { case: "responsePut"; value: MessagesByName["etcdserverpb.PutResponse"] } | { case: "responseDeleteRange"; value: MessagesByName["etcdserverpb.DeleteRangeResponse"] } | { case: undefined; value?: undefined };
  };
  readonly "etcdserverpb.TxnRequest": Message<"etcdserverpb.TxnRequest"> & {
    compare: MessagesByName["etcdserverpb.Compare"][];
    success: MessagesByName["etcdserverpb.RequestOp"][];
    failure: MessagesByName["etcdserverpb.RequestOp"][];
  };
  readonly "etcdserverpb.TxnResponse": Message<"etcdserverpb.TxnResponse"> & {
    header?: MessagesByName["etcdserverpb.ResponseHeader"] | undefined;
    succeeded: boolean;
    responses: MessagesByName["etcdserverpb.ResponseOp"][];
  };
  readonly "etcdserverpb.WatchCancelRequest": Message<"etcdserverpb.WatchCancelRequest"> & {
    watchId: bigint;
  };
  readonly "etcdserverpb.WatchCreateRequest": Message<"etcdserverpb.WatchCreateRequest"> & {
    key: Uint8Array;
    rangeEnd: Uint8Array;
    startRevision: bigint;
    progressNotify: boolean;
    watchId: bigint;
    fragment: boolean;
  };
  readonly "etcdserverpb.WatchRequest": Message<"etcdserverpb.WatchRequest"> & {
    requestUnion: { case: "createRequest"; value: MessagesByName["etcdserverpb.WatchCreateRequest"] } | { case: "cancelRequest"; value: MessagesByName["etcdserverpb.WatchCancelRequest"] } | { case: undefined; value?: undefined };
  };
  readonly "etcdserverpb.WatchResponse": Message<"etcdserverpb.WatchResponse"> & {
    header?: MessagesByName["etcdserverpb.ResponseHeader"] | undefined;
    watchId: bigint;
    created: boolean;
    canceled: boolean;
    compactRevision: bigint;
    cancelReason: string;
    fragment: boolean;
    events: MessagesByName["mvccpb.Event"][];
  };
  readonly "google.api.CustomHttpPattern": Message<"google.api.CustomHttpPattern"> & {
    kind: string;
    path: string;
  };
  readonly "google.api.Http": Message<"google.api.Http"> & {
    rules: MessagesByName["google.api.HttpRule"][];
    fullyDecodeReservedExpansion: boolean;
  };
  readonly "google.api.HttpRule": Message<"google.api.HttpRule"> & {
    selector: string;
    pattern: { case: "get"; value: string } | { case: "put"; value: string } | { case: "post"; value: string } | { case: "delete"; value: string } | { case: "patch"; value: string } | { case: "custom"; value: MessagesByName["google.api.CustomHttpPattern"] } | { case: undefined; value?: undefined };
    body: string;
    responseBody: string;
    additionalBindings: MessagesByName["google.api.HttpRule"][];
  };
  readonly "google.rpc.Status": Message<"google.rpc.Status"> & {
    code: number;
    message: string;
    details: Any[];
  };
  readonly "grpc.health.v1.HealthCheckRequest": Message<"grpc.health.v1.HealthCheckRequest"> & {
    service: string;
  };
  readonly "grpc.health.v1.HealthCheckResponse": Message<"grpc.health.v1.HealthCheckResponse"> & {
    status: number;
  };
  readonly "grpc.health.v1.HealthListRequest": Message<"grpc.health.v1.HealthListRequest">;
  readonly "grpc.health.v1.HealthListResponse": Message<"grpc.health.v1.HealthListResponse"> & {
    statuses: { [key: string]: MessagesByName["grpc.health.v1.HealthCheckResponse"] };
  };
  readonly "grpc.reflection.v1.ErrorResponse": Message<"grpc.reflection.v1.ErrorResponse"> & {
    errorCode: number;
    errorMessage: string;
  };
  readonly "grpc.reflection.v1.ExtensionNumberResponse": Message<"grpc.reflection.v1.ExtensionNumberResponse"> & {
    baseTypeName: string;
    extensionNumber: number[];
  };
  readonly "grpc.reflection.v1.ExtensionRequest": Message<"grpc.reflection.v1.ExtensionRequest"> & {
    containingType: string;
    extensionNumber: number;
  };
  readonly "grpc.reflection.v1.FileDescriptorResponse": Message<"grpc.reflection.v1.FileDescriptorResponse"> & {
    fileDescriptorProto: Uint8Array[];
  };
  readonly "grpc.reflection.v1.ListServiceResponse": Message<"grpc.reflection.v1.ListServiceResponse"> & {
    service: MessagesByName["grpc.reflection.v1.ServiceResponse"][];
  };
  readonly "grpc.reflection.v1.ServerReflectionRequest": Message<"grpc.reflection.v1.ServerReflectionRequest"> & {
    host: string;
    messageRequest: { case: "fileByFilename"; value: string } | { case: "fileContainingSymbol"; value: string } | { case: "fileContainingExtension"; value: MessagesByName["grpc.reflection.v1.ExtensionRequest"] } | { case: "allExtensionNumbersOfType"; value: string } | { case: "listServices"; value: string } | { case: undefined; value?: undefined };
  };
  readonly "grpc.reflection.v1.ServerReflectionResponse": Message<"grpc.reflection.v1.ServerReflectionResponse"> & {
    validHost: string;
    originalRequest?: MessagesByName["grpc.reflection.v1.ServerReflectionRequest"] | undefined;
    messageResponse: { case: "fileDescriptorResponse"; value: MessagesByName["grpc.reflection.v1.FileDescriptorResponse"] } | { case: "allExtensionNumbersResponse"; value: MessagesByName["grpc.reflection.v1.ExtensionNumberResponse"] } | { case: "listServicesResponse"; value: MessagesByName["grpc.reflection.v1.ListServiceResponse"] } | { case: "errorResponse"; value: MessagesByName["grpc.reflection.v1.ErrorResponse"] } | { case: undefined; value?: undefined };
  };
  readonly "grpc.reflection.v1.ServiceResponse": Message<"grpc.reflection.v1.ServiceResponse"> & {
    name: string;
  };
  readonly "grpc.reflection.v1alpha.ErrorResponse": Message<"grpc.reflection.v1alpha.ErrorResponse"> & {
    errorCode: number;
    errorMessage: string;
  };
  readonly "grpc.reflection.v1alpha.ExtensionNumberResponse": Message<"grpc.reflection.v1alpha.ExtensionNumberResponse"> & {
    baseTypeName: string;
    extensionNumber: number[];
  };
  readonly "grpc.reflection.v1alpha.ExtensionRequest": Message<"grpc.reflection.v1alpha.ExtensionRequest"> & {
    containingType: string;
    extensionNumber: number;
  };
  readonly "grpc.reflection.v1alpha.FileDescriptorResponse": Message<"grpc.reflection.v1alpha.FileDescriptorResponse"> & {
    fileDescriptorProto: Uint8Array[];
  };
  readonly "grpc.reflection.v1alpha.ListServiceResponse": Message<"grpc.reflection.v1alpha.ListServiceResponse"> & {
    service: MessagesByName["grpc.reflection.v1alpha.ServiceResponse"][];
  };
  readonly "grpc.reflection.v1alpha.ServerReflectionRequest": Message<"grpc.reflection.v1alpha.ServerReflectionRequest"> & {
    host: string;
    messageRequest: { case: "fileByFilename"; value: string } | { case: "fileContainingSymbol"; value: string } | { case: "fileContainingExtension"; value: MessagesByName["grpc.reflection.v1alpha.ExtensionRequest"] } | { case: "allExtensionNumbersOfType"; value: string } | { case: "listServices"; value: string } | { case: undefined; value?: undefined };
  };
  readonly "grpc.reflection.v1alpha.ServerReflectionResponse": Message<"grpc.reflection.v1alpha.ServerReflectionResponse"> & {
    validHost: string;
    originalRequest?: MessagesByName["grpc.reflection.v1alpha.ServerReflectionRequest"] | undefined;
    messageResponse: { case: "fileDescriptorResponse"; value: MessagesByName["grpc.reflection.v1alpha.FileDescriptorResponse"] } | { case: "allExtensionNumbersResponse"; value: MessagesByName["grpc.reflection.v1alpha.ExtensionNumberResponse"] } | { case: "listServicesResponse"; value: MessagesByName["grpc.reflection.v1alpha.ListServiceResponse"] } | { case: "errorResponse"; value: MessagesByName["grpc.reflection.v1alpha.ErrorResponse"] } | { case: undefined; value?: undefined };
  };
  readonly "grpc.reflection.v1alpha.ServiceResponse": Message<"grpc.reflection.v1alpha.ServiceResponse"> & {
    name: string;
  };
  readonly "mvccpb.Event": Message<"mvccpb.Event"> & {
    type: number;
    kv?: MessagesByName["mvccpb.KeyValue"] | undefined;
  };
  readonly "mvccpb.KeyValue": Message<"mvccpb.KeyValue"> & {
    key: Uint8Array;
    createRevision: bigint;
    modRevision: bigint;
    version: bigint;
    value: Uint8Array;
    lease: bigint;
  };
  readonly "opentelemetry.proto.collector.logs.v1.ExportLogsPartialSuccess": Message<"opentelemetry.proto.collector.logs.v1.ExportLogsPartialSuccess"> & {
    rejectedLogRecords: bigint;
    errorMessage: string;
  };
  readonly "opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest": Message<"opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest"> & {
    resourceLogs: MessagesByName["opentelemetry.proto.logs.v1.ResourceLogs"][];
  };
  readonly "opentelemetry.proto.collector.logs.v1.ExportLogsServiceResponse": Message<"opentelemetry.proto.collector.logs.v1.ExportLogsServiceResponse"> & {
    partialSuccess?: MessagesByName["opentelemetry.proto.collector.logs.v1.ExportLogsPartialSuccess"] | undefined;
  };
  readonly "opentelemetry.proto.collector.trace.v1.ExportTracePartialSuccess": Message<"opentelemetry.proto.collector.trace.v1.ExportTracePartialSuccess"> & {
    rejectedSpans: bigint;
    errorMessage: string;
  };
  readonly "opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest": Message<"opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest"> & {
    resourceSpans: MessagesByName["opentelemetry.proto.trace.v1.ResourceSpans"][];
  };
  readonly "opentelemetry.proto.collector.trace.v1.ExportTraceServiceResponse": Message<"opentelemetry.proto.collector.trace.v1.ExportTraceServiceResponse"> & {
    partialSuccess?: MessagesByName["opentelemetry.proto.collector.trace.v1.ExportTracePartialSuccess"] | undefined;
  };
  readonly "opentelemetry.proto.common.v1.AnyValue": Message<"opentelemetry.proto.common.v1.AnyValue"> & {
    value: { case: "stringValue"; value: string } | { case: "boolValue"; value: boolean } | { case: "intValue"; value: bigint } | { case: "doubleValue"; value: number } | { case: "arrayValue"; value: MessagesByName["opentelemetry.proto.common.v1.ArrayValue"] } | { case: "kvlistValue"; value: MessagesByName["opentelemetry.proto.common.v1.KeyValueList"] } | { case: "bytesValue"; value: Uint8Array } | { case: undefined; value?: undefined };
  };
  readonly "opentelemetry.proto.common.v1.ArrayValue": Message<"opentelemetry.proto.common.v1.ArrayValue"> & {
    values: MessagesByName["opentelemetry.proto.common.v1.AnyValue"][];
  };
  readonly "opentelemetry.proto.common.v1.InstrumentationScope": Message<"opentelemetry.proto.common.v1.InstrumentationScope"> & {
    name: string;
    version: string;
    attributes: MessagesByName["opentelemetry.proto.common.v1.KeyValue"][];
    droppedAttributesCount: number;
  };
  readonly "opentelemetry.proto.common.v1.KeyValue": Message<"opentelemetry.proto.common.v1.KeyValue"> & {
    key: string;
    value?: MessagesByName["opentelemetry.proto.common.v1.AnyValue"] | undefined;
  };
  readonly "opentelemetry.proto.common.v1.KeyValueList": Message<"opentelemetry.proto.common.v1.KeyValueList"> & {
    values: MessagesByName["opentelemetry.proto.common.v1.KeyValue"][];
  };
  readonly "opentelemetry.proto.logs.v1.LogRecord": Message<"opentelemetry.proto.logs.v1.LogRecord"> & {
    timeUnixNano: bigint;
    observedTimeUnixNano: bigint;
    severityNumber: number;
    severityText: string;
    body?: MessagesByName["opentelemetry.proto.common.v1.AnyValue"] | undefined;
    attributes: MessagesByName["opentelemetry.proto.common.v1.KeyValue"][];
    droppedAttributesCount: number;
    flags: number;
    traceId: Uint8Array;
    spanId: Uint8Array;
  };
  readonly "opentelemetry.proto.logs.v1.ResourceLogs": Message<"opentelemetry.proto.logs.v1.ResourceLogs"> & {
    resource?: MessagesByName["opentelemetry.proto.resource.v1.Resource"] | undefined;
    scopeLogs: MessagesByName["opentelemetry.proto.logs.v1.ScopeLogs"][];
    schemaUrl: string;
  };
  readonly "opentelemetry.proto.logs.v1.ScopeLogs": Message<"opentelemetry.proto.logs.v1.ScopeLogs"> & {
    scope?: MessagesByName["opentelemetry.proto.common.v1.InstrumentationScope"] | undefined;
    logRecords: MessagesByName["opentelemetry.proto.logs.v1.LogRecord"][];
    schemaUrl: string;
  };
  readonly "opentelemetry.proto.resource.v1.Resource": Message<"opentelemetry.proto.resource.v1.Resource"> & {
    attributes: MessagesByName["opentelemetry.proto.common.v1.KeyValue"][];
    droppedAttributesCount: number;
  };
  readonly "opentelemetry.proto.trace.v1.ResourceSpans": Message<"opentelemetry.proto.trace.v1.ResourceSpans"> & {
    resource?: MessagesByName["opentelemetry.proto.resource.v1.Resource"] | undefined;
    scopeSpans: MessagesByName["opentelemetry.proto.trace.v1.ScopeSpans"][];
    schemaUrl: string;
  };
  readonly "opentelemetry.proto.trace.v1.ScopeSpans": Message<"opentelemetry.proto.trace.v1.ScopeSpans"> & {
    scope?: MessagesByName["opentelemetry.proto.common.v1.InstrumentationScope"] | undefined;
    spans: MessagesByName["opentelemetry.proto.trace.v1.Span"][];
    schemaUrl: string;
  };
  readonly "opentelemetry.proto.trace.v1.Span": Message<"opentelemetry.proto.trace.v1.Span"> & {
    traceId: Uint8Array;
    spanId: Uint8Array;
    traceState: string;
    parentSpanId: Uint8Array;
    name: string;
    startTimeUnixNano: bigint;
    endTimeUnixNano: bigint;
    attributes: MessagesByName["opentelemetry.proto.common.v1.KeyValue"][];
    flags: number;
  };
  readonly "sluice.fleet.v1.AdaptiveBounds": Message<"sluice.fleet.v1.AdaptiveBounds"> & {
    min: number;
    start: number;
    tolerance: number;
  };
  readonly "sluice.fleet.v1.Answer": Message<"sluice.fleet.v1.Answer"> & {
    id: string;
    result: { case: "reply"; value: Uint8Array } | { case: "failure"; value: MessagesByName["sluice.fleet.v1.Failure"] } | { case: undefined; value?: undefined };
  };
  readonly "sluice.fleet.v1.Applied": Message<"sluice.fleet.v1.Applied"> & {
    policies: bigint[];
    refused: MessagesByName["sluice.fleet.v1.Refused"][];
  };
  readonly "sluice.fleet.v1.Failure": Message<"sluice.fleet.v1.Failure"> & {
    code: number;
    message: string;
  };
  readonly "sluice.fleet.v1.FromAgent": Message<"sluice.fleet.v1.FromAgent"> & {
    message: { case: "introduction"; value: MessagesByName["sluice.fleet.v1.Introduction"] } | { case: "answer"; value: MessagesByName["sluice.fleet.v1.Answer"] } | { case: undefined; value?: undefined };
  };
  readonly "sluice.fleet.v1.Introduction": Message<"sluice.fleet.v1.Introduction"> & {
    agentGroup: string;
    peer?: MessagesByName["aperture.peers.v1.Peer"] | undefined;
  };
  readonly "sluice.fleet.v1.Lease": Message<"sluice.fleet.v1.Lease"> & {
    first: number;
    count: number;
    agent: number;
    turn: number;
    unspent: number;
    keep: number;
    wish: number;
    unit: number;
    durationMs: number;
  };
  readonly "sluice.fleet.v1.LeaseReply": Message<"sluice.fleet.v1.LeaseReply"> & {
    leased: number;
    recall: boolean;
  };
  readonly "sluice.fleet.v1.Limiter": Message<"sluice.fleet.v1.Limiter"> & {
    policyName: string;
    name: string;
    capacity: number;
    amount: number;
    intervalMs: number;
    continuous: boolean;
    delayed: boolean;
    maxIdleMs: number;
    maxInflightMs: number;
    adaptive?: MessagesByName["sluice.fleet.v1.AdaptiveBounds"] | undefined;
  };
  readonly "sluice.fleet.v1.Refused": Message<"sluice.fleet.v1.Refused"> & {
    policy: string;
    reason: string;
  };
  readonly "sluice.fleet.v1.StoreRequest": Message<"sluice.fleet.v1.StoreRequest"> & {
    from: string;
    number: number;
    purpose: number;
    last: boolean;
    limiters: MessagesByName["sluice.fleet.v1.Limiter"][];
    limiter: number[];
    keyLo: number[];
    keyHi: number[];
    available: number[];
    filledMs: number[];
    id: string[];
  };
  readonly "sluice.fleet.v1.StoreResponse": Message<"sluice.fleet.v1.StoreResponse">;
  readonly "sluice.fleet.v1.TakeRequest": Message<"sluice.fleet.v1.TakeRequest"> & {
    limiters: MessagesByName["sluice.fleet.v1.Limiter"][];
    limiter: number[];
    keyLo: number[];
    keyHi: number[];
    amount: number[];
    id: string[];
    times: number[];
    owe: boolean[];
    leases: MessagesByName["sluice.fleet.v1.Lease"][];
  };
  readonly "sluice.fleet.v1.TakeResponse": Message<"sluice.fleet.v1.TakeResponse"> & {
    outcome: number[];
    remaining: number[];
    waitMs: number[];
    full: boolean[];
    granted: number[];
    leases: MessagesByName["sluice.fleet.v1.LeaseReply"][];
    inFlight: number[];
  };
  readonly "sluice.fleet.v1.ToAgent": Message<"sluice.fleet.v1.ToAgent"> & {
    id: string;
    request: Uint8Array;
  };
  readonly "udpa.annotations.FieldMigrateAnnotation": Message<"udpa.annotations.FieldMigrateAnnotation"> & {
    rename: string;
    oneofPromotion: string;
  };
  readonly "udpa.annotations.FileMigrateAnnotation": Message<"udpa.annotations.FileMigrateAnnotation"> & {
    moveToPackage: string;
  };
  readonly "udpa.annotations.MigrateAnnotation": Message<"udpa.annotations.MigrateAnnotation"> & {
    rename: string;
  };
  readonly "udpa.annotations.StatusAnnotation": Message<"udpa.annotations.StatusAnnotation"> & {
    workInProgress: boolean;
    packageVersionStatus: number;
  };
  readonly "udpa.annotations.VersioningAnnotation": Message<"udpa.annotations.VersioningAnnotation"> & {
    previousMessageType: string;
  };
  readonly "validate.AnyRules": Message<"validate.AnyRules"> & {
    required: boolean;
    in: string[];
    notIn: string[];
  };
  readonly "validate.BoolRules": Message<"validate.BoolRules"> & {
    const: boolean;
  };
  readonly "validate.BytesRules": Message<"validate.BytesRules"> & {
    const: Uint8Array;
    len: bigint;
    minLen: bigint;
    maxLen: bigint;
    pattern: string;
    prefix: Uint8Array;
    suffix: Uint8Array;
    contains: Uint8Array;
    in: Uint8Array[];
    notIn: Uint8Array[];
    wellKnown: { case: "ip"; value: boolean } | { case: "ipv4"; value: boolean } | { case: "ipv6"; value: boolean } | { case: undefined; value?: undefined };
  };
  readonly "validate.DoubleRules": Message<"validate.DoubleRules"> & {
    const: number;
    lt: number;
    lte: number;
    gt: number;
    gte: number;
    in: number[];
    notIn: number[];
  };
  readonly "validate.DurationRules": Message<"validate.DurationRules"> & {
    required: boolean;
    const?: Duration | undefined;
    lt?: Duration | undefined;
    lte?: Duration | undefined;
    gt?: Duration | undefined;
    gte?: Duration | undefined;
    in: Duration[];
    notIn: Duration[];
  };
  readonly "validate.EnumRules": Message<"validate.EnumRules"> & {
    const: number;
    definedOnly: boolean;
    in: number[];
    notIn: number[];
  };
  readonly "validate.FieldRules": Message<"validate.FieldRules"> & {
    message?: MessagesByName["validate.MessageRules"] | undefined;
    type: { case: "float"; value: MessagesByName["validate.FloatRules"] } | { case: "double"; value: MessagesByName["validate.DoubleRules"] } | { case: "int32"; value: MessagesByName["validate.Int32Rules"] } | { case: "int64"; value: MessagesByName["validate.Int64Rules"] } | { case: "uint32"; value: MessagesByName["validate.UInt32Rules"] } | { case: "uint64"; value: MessagesByName["validate.UInt64Rules"] } | { case: "sint32"; value: MessagesByName["validate.SInt32Rules"] } | { case: "sint64"; value: MessagesByName["validate.SInt64Rules"] } | { case: "fixed32"; value: MessagesByName["validate.Fixed32Rules"] } | { case: "fixed64"; value: MessagesByName["validate.Fixed64Rules"] } | { case: "sfixed32"; value: MessagesByName["validate.SFixed32Rules"] } | { case: "sfixed64"; value: MessagesByName["validate.SFixed64Rules"] } | { case: "bool"; value: MessagesByName["validate.BoolRules"] } | { case: "string"; value: MessagesByName["validate.StringRules"] } | { case: "bytes"; value: MessagesByName["validate.BytesRules"] } | { case: "enum"; value: MessagesByName["validate.EnumRules"] } | { case: "repeated"; value: MessagesByName["validate.RepeatedRules"] } | { case: "map"; value: MessagesByName["validate.MapRules"] } | { case: "any"; value: MessagesByName["validate.AnyRules"] } | { case: "duration"; value: MessagesByName["validate.DurationRules"] } | { case: "timestamp"; value: MessagesByName["validate.TimestampRules"] } | { case: undefined; value?: undefined };
  };
  readonly "validate.Fixed32Rules": Message<"validate.Fixed32Rules"> & {
    const: number;
    lt: number;
    lte: number;
    gt: number;
    gte: number;
    in: number[];
    notIn: number[];
  };
  readonly "validate.Fixed64Rules": Message<"validate.Fixed64Rules"> & {
    const: bigint;
    lt: bigint;
    lte: bigint;
    gt: bigint;
    gte: bigint;
    in: bigint[];
    notIn: bigint[];
  };
  readonly "validate.FloatRules": Message<"validate.FloatRules"> & {
    const: number;
    lt: number;
    lte: number;
    gt: number;
    gte: number;
    in: number[];
    notIn: number[];
  };
  readonly "validate.Int32Rules": Message<"validate.Int32Rules"> & {
    const: number;
    lt: number;
    lte: number;
    gt: number;
    gte: number;
    in: number[];
    notIn: number[];
  };
  readonly "validate.Int64Rules": Message<"validate.Int64Rules"> & {
    const: bigint;
    lt: bigint;
    lte: bigint;
    gt: bigint;
    gte: bigint;
    in: bigint[];
    notIn: bigint[];
  };
  readonly "validate.MapRules": Message<"validate.MapRules"> & {
    minPairs: bigint;
    maxPairs: bigint;
    noSparse: boolean;
    keys?: MessagesByName["validate.FieldRules"] | undefined;
    values?: MessagesByName["validate.FieldRules"] | undefined;
  };
  readonly "validate.MessageRules": Message<"validate.MessageRules"> & {
    skip: boolean;
    required: boolean;
  };
  readonly "validate.RepeatedRules": Message<"validate.RepeatedRules"> & {
    minItems: bigint;
    maxItems: bigint;
    unique: boolean;
    items?: MessagesByName["validate.FieldRules"] | undefined;
  };
  readonly "validate.SFixed32Rules": Message<"validate.SFixed32Rules"> & {
    const: number;
    lt: number;
    lte: number;
    gt: number;
    gte: number;
    in: number[];
    notIn: number[];
  };
  readonly "validate.SFixed64Rules": Message<"validate.SFixed64Rules"> & {
    const: bigint;
    lt: bigint;
    lte: bigint;
    gt: bigint;
    gte: bigint;
    in: bigint[];
    notIn: bigint[];
  };
  readonly "validate.SInt32Rules": Message<"validate.SInt32Rules"> & {
    const: number;
    lt: number;
    lte: number;
    gt: number;
    gte: number;
    in: number[];
    notIn: number[];
  };
  readonly "validate.SInt64Rules": Message<"validate.SInt64Rules"> & {
    const: bigint;
    lt: bigint;
    lte: bigint;
    gt: bigint;
    gte: bigint;
    in: bigint[];
    notIn: bigint[];
  };
  readonly "validate.StringRules": Message<"validate.StringRules"> & {
    const: string;
    len: bigint;
    minLen: bigint;
    maxLen: bigint;
    lenBytes: bigint;
    minBytes: bigint;
    maxBytes: bigint;
    pattern: string;
    prefix: string;
    suffix: string;
    contains: string;
    notContains: string;
    in: string[];
    notIn: string[];
    wellKnown: { case: "email"; value: boolean } | { case: "hostname"; value: boolean } | { case: "ip"; value: boolean } | { case: "ipv4"; value: boolean } | { case: "ipv6"; value: boolean } | { case: "uri"; value: boolean } | { case: "uriRef"; value: boolean } | { case: "address"; value: boolean } | { case: "uuid"; value: boolean } | { case: "wellKnownRegex"; value: number } | { case: undefined; value?: undefined };
    strict: boolean;
  };
  readonly "validate.TimestampRules": Message<"validate.TimestampRules"> & {
    required: boolean;
    const?: Timestamp | undefined;
    lt?: Timestamp | undefined;
    lte?: Timestamp | undefined;
    gt?: Timestamp | undefined;
    gte?: Timestamp | undefined;
    ltNow: boolean;
    gtNow: boolean;
    within?: Duration | undefined;
  };
  readonly "validate.UInt32Rules": Message<"validate.UInt32Rules"> & {
    const: number;
    lt: number;
    lte: number;
    gt: number;
    gte: number;
    in: number[];
    notIn: number[];
  };
  readonly "validate.UInt64Rules": Message<"validate.UInt64Rules"> & {
    const: bigint;
    lt: bigint;
    lte: bigint;
    gt: bigint;
    gte: bigint;
    in: bigint[];
    notIn: bigint[];
  };
  readonly "xds.annotations.v3.FieldStatusAnnotation": Message<"xds.annotations.v3.FieldStatusAnnotation"> & {
    workInProgress: boolean;
  };
  readonly "xds.annotations.v3.FileStatusAnnotation": Message<"xds.annotations.v3.FileStatusAnnotation"> & {
    workInProgress: boolean;
  };
  readonly "xds.annotations.v3.MessageStatusAnnotation": Message<"xds.annotations.v3.MessageStatusAnnotation"> & {
    workInProgress: boolean;
  };
  readonly "xds.annotations.v3.StatusAnnotation": Message<"xds.annotations.v3.StatusAnnotation"> & {
    workInProgress: boolean;
    packageVersionStatus: number;
  };
  readonly "xds.core.v3.ContextParams": Message<"xds.core.v3.ContextParams"> & {
    params: { [key: string]: string };
  };
}
