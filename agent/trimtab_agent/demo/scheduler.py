"""A small batch scheduler, pure: jobs in, placements out. First come first served, with small jobs filling gaps.

It stands where Slurm or Kubernetes would. It never decides about nodes; it only respects their marks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from trimtab_agent.demo.trace import Job

GPUS_PER_NODE = 8


@dataclass(frozen=True, slots=True)
class Running:
    """A job on a node, since when and until when in seconds of the day."""

    job: Job
    node: str
    since: float
    until: float


@dataclass
class Scheduler:
    """The queue, what runs where, and how long each job waited for its first start."""

    queue: list[Job] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)
    waits: dict[int, float] = field(default_factory=dict)
    submitted: dict[int, float] = field(default_factory=dict)
    requeued: int = 0
    finished: int = 0
    gpu_seconds_used: float = 0.0

    @property
    def pending_gpus(self) -> int:
        """GPUs that queued jobs wait for."""
        return sum(job.gpus for job in self.queue)

    def used(self, node: str) -> int:
        """GPUs in use on a node."""
        return sum(each.job.gpus for each in self.running if each.node == node)

    def submit(self, job: Job) -> None:
        """Take a job in."""
        self.submitted[job.number] = job.submit
        self.queue.append(job)

    def finish(self, now: float) -> None:
        """Let jobs end that have run their time."""
        done = [each for each in self.running if each.until <= now]
        self.finished += len(done)
        self.gpu_seconds_used += sum(each.job.gpus * (each.until - each.since) for each in done)
        self.running = [each for each in self.running if each.until > now]

    def place(self, free: dict[str, int], now: float) -> None:
        """Start what fits on open nodes, fullest node first so that others can empty; `free` is GPUs by node."""
        waiting: list[Job] = []
        for job in self.queue:
            fitting = [node for node, gpus in sorted(free.items()) if gpus >= job.gpus]
            if not fitting:
                waiting.append(job)
                continue
            node = min(fitting, key=lambda each: free[each])
            free[node] -= job.gpus
            self.running.append(Running(job, node, now, now + job.duration))
            self.waits.setdefault(job.number, max(0.0, now - self.submitted[job.number]))
        self.queue = waiting

    def evict(self, node: str, now: float) -> int:
        """Checkpoint a node's jobs and put them back at the head of the queue with what is left of them."""
        leaving = [each for each in self.running if each.node == node]
        self.running = [each for each in self.running if each.node != node]
        rest = [replace(each.job, duration=max(1.0, each.until - now)) for each in leaving]
        self.gpu_seconds_used += sum(each.job.gpus * max(0.0, now - each.since) for each in leaving)
        self.queue = rest + self.queue
        self.requeued += len(leaving)
        return len(leaving)
