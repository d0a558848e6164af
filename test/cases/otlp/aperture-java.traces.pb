
ú
=

service.name
aperture-java

service.version
2.3.0¸

aperture-java‰
ñL§]¸nÉ$Ú5ëFc¾tÏ*…à*Aperture Check9A2Û§®ozAÁã*©®ozJ+
aperture.flow_start_timestamp
Áäì¾êõ›½J
aperture.source
sdkJ/
!aperture.workload_start_timestamp
Áíæ¿êõ›½J
aperture.flow.status
OKJ‡
aperture.check_responseë
è{
  "start": "2026-11-22T21:57:05.910308350Z",
  "end": "2026-11-22T21:57:05.910449219Z",
  "controlPoint": "feature",
  "flowLabelKeys": [
    "user"
  ],
  "telemetryFlowLabels": {
    "user": "u",
    "aperture.control_point_type": "feature"
  },
  "fluxMeterInfos": [
    {
      "fluxMeterName": "latency"
    }
  ],
  "limiterDecisions": [
    {
      "policyName": "feature",
      "policyHash": "8e82e0a93d283ed0d698e39fe12545f6",
      "componentId": "root.0",
      "waitTime": "0s",
      "concurrencyLimiterInfo": {
        "label": "default",
        "tokensInfo": {
          "remaining": 4,
          "current": 6,
          "consumed": 1
        },
        "requestId": "4faede75-49e2-4fe8-9ca2-ab3c624e3443"
      }
    }
  ]
}J)
aperture.flow_end_timestamp
ÁÇ«Éêõ›½Œ
qÌ'‚İ8“îI¤ÿZµkˆã>™ôOª*Aperture Check9AÑ­®ozAA[¹¯®ozJ+
aperture.flow_start_timestamp
Á¦Äîêõ›½J
aperture.source
sdkJ/
!aperture.workload_start_timestamp
Á¯¾ïêõ›½J
aperture.flow.status
ErrorJ‡
aperture.check_responseë
è{
  "start": "2026-11-22T21:57:05.928338867Z",
  "end": "2026-11-22T21:57:05.928468506Z",
  "controlPoint": "feature",
  "flowLabelKeys": [
    "user"
  ],
  "telemetryFlowLabels": {
    "user": "u",
    "aperture.control_point_type": "feature"
  },
  "fluxMeterInfos": [
    {
      "fluxMeterName": "latency"
    }
  ],
  "limiterDecisions": [
    {
      "policyName": "feature",
      "policyHash": "8e82e0a93d283ed0d698e39fe12545f6",
      "componentId": "root.0",
      "waitTime": "0s",
      "concurrencyLimiterInfo": {
        "label": "default",
        "tokensInfo": {
          "remaining": 3,
          "current": 7,
          "consumed": 1
        },
        "requestId": "6ceed02a-1309-4863-be25-d24ee4866daf"
      }
    }
  ]
}J)
aperture.flow_end_timestamp
Á¶åıêõ›½‰
;–ñL§]¸nÉ$Ú5­c¾tÏ**Aperture Check9AôÆ³®ozAÁÒG¶®ozJ+
aperture.flow_start_timestamp
Áè›ëõ›½J
aperture.source
sdkJ/
!aperture.workload_start_timestamp
Áñ•Ÿëõ›½J
aperture.flow.status
OKJ‡
aperture.check_responseë
è{
  "start": "2026-11-22T21:57:05.930303955Z",
  "end": "2026-11-22T21:57:05.930421387Z",
  "controlPoint": "feature",
  "flowLabelKeys": [
    "user"
  ],
  "telemetryFlowLabels": {
    "user": "u",
    "aperture.control_point_type": "feature"
  },
  "fluxMeterInfos": [
    {
      "fluxMeterName": "latency"
    }
  ],
  "limiterDecisions": [
    {
      "policyName": "feature",
      "policyHash": "8e82e0a93d283ed0d698e39fe12545f6",
      "componentId": "root.0",
      "waitTime": "0s",
      "concurrencyLimiterInfo": {
        "label": "default",
        "tokensInfo": {
          "remaining": 2,
          "current": 8,
          "consumed": 1
        },
        "requestId": "91b6c645-cb0c-45a1-a507-536ddfa65b5a"
      }
    }
  ]
}J)
aperture.flow_end_timestamp
Á¥Ÿ²ëõ›½