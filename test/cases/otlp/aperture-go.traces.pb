
ò
;

service.name
aperture-go

service.version
2.0.0²

aperture-goİ
ñL§]¸nÉ$Ú5ëFc¾tÏ*…à*Aperture Check9A2Û§®ozAÁã*©®ozJ+
aperture.flow_start_timestamp
Áäì¾êõ›½J
aperture.source
sdkJ/
!aperture.workload_start_timestamp
Áíæ¿êõ›½J
aperture.flow.status
OKJÛ
aperture.check_response¿
¼{"start": "2026-11-22T21:57:05.665099609Z", "end": "2026-11-22T21:57:05.665281250Z", "controlPoint": "feature", "flowLabelKeys": ["user"], "telemetryFlowLabels": {"user": "u", "aperture.control_point_type": "feature"}, "fluxMeterInfos": [{"fluxMeterName": "latency"}], "limiterDecisions": [{"policyName": "feature", "policyHash": "8e82e0a93d283ed0d698e39fe12545f6", "componentId": "root.0", "waitTime": "0s", "concurrencyLimiterInfo": {"label": "default", "tokensInfo": {"remaining": 7, "current": 3, "consumed": 1}, "requestId": "6fee658f-53a8-4288-93ce-da452a4de44a"}}]}J)
aperture.flow_end_timestamp
ÁÇ«Éêõ›½à
qÌ'‚İ8“îI¤ÿZµkˆã>™ôOª*Aperture Check9AÑ­®ozAA[¹¯®ozJ+
aperture.flow_start_timestamp
Á¦Äîêõ›½J
aperture.source
sdkJ/
!aperture.workload_start_timestamp
Á¯¾ïêõ›½J
aperture.flow.status
ErrorJÛ
aperture.check_response¿
¼{"start": "2026-11-22T21:57:05.744087402Z", "end": "2026-11-22T21:57:05.744355713Z", "controlPoint": "feature", "flowLabelKeys": ["user"], "telemetryFlowLabels": {"user": "u", "aperture.control_point_type": "feature"}, "fluxMeterInfos": [{"fluxMeterName": "latency"}], "limiterDecisions": [{"policyName": "feature", "policyHash": "8e82e0a93d283ed0d698e39fe12545f6", "componentId": "root.0", "waitTime": "0s", "concurrencyLimiterInfo": {"label": "default", "tokensInfo": {"remaining": 6, "current": 4, "consumed": 1}, "requestId": "e9dfa2d2-1e24-414d-aca6-1d828536ca40"}}]}J)
aperture.flow_end_timestamp
Á¶åıêõ›½İ
;–ñL§]¸nÉ$Ú5­c¾tÏ**Aperture Check9AôÆ³®ozAÁÒG¶®ozJ+
aperture.flow_start_timestamp
Áè›ëõ›½J
aperture.source
sdkJ/
!aperture.workload_start_timestamp
Áñ•Ÿëõ›½J
aperture.flow.status
OKJÛ
aperture.check_response¿
¼{"start": "2026-11-22T21:57:05.881357666Z", "end": "2026-11-22T21:57:05.883417969Z", "controlPoint": "feature", "flowLabelKeys": ["user"], "telemetryFlowLabels": {"user": "u", "aperture.control_point_type": "feature"}, "fluxMeterInfos": [{"fluxMeterName": "latency"}], "limiterDecisions": [{"policyName": "feature", "policyHash": "8e82e0a93d283ed0d698e39fe12545f6", "componentId": "root.0", "waitTime": "0s", "concurrencyLimiterInfo": {"label": "default", "tokensInfo": {"remaining": 5, "current": 5, "consumed": 1}, "requestId": "da600ca0-2e07-4b54-b8dd-1840decbca38"}}]}J)
aperture.flow_end_timestamp
Á¥Ÿ²ëõ›½