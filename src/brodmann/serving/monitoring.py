"""What a server counts, as Prometheus reads it (`GET /metrics`)."""

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
OTHER = "other"  # any address that is not ours: strangers must not add series


class Monitor:
    """The counters of one application, in a registry of their own."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "brodmann_requests", "requests by address and status", ["path", "status"],
            registry=self.registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "brodmann_request_seconds", "time from a request to its response", ["path"],
            buckets=SECONDS, registry=self.registry,
        )  # fmt: skip
        self.under_way = Gauge(
            "brodmann_requests_under_way", "requests that wait for an answer",
            registry=self.registry,
        )  # fmt: skip
        self._together = Histogram(
            "brodmann_texts_per_reading", "texts that were read together", buckets=TEXTS,
            registry=self.registry,
        )  # fmt: skip
        self._reading = Histogram(
            "brodmann_reading_seconds", "time of one reading", buckets=SECONDS,
            registry=self.registry,
        )  # fmt: skip

    def answered(self, path: str, status: int, seconds: float) -> None:
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def read(self, texts: int, seconds: float) -> None:
        self._together.observe(texts)
        self._reading.observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
