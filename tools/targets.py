"""What can be had, as data: the toolchain treats every row alike."""

from __future__ import annotations

from dataclasses import dataclass, field

ENGINE = "3.274.1"
KUBERNETES = "1.35.4"
PULUMI_KUBERNETES = "github.com/pulumi/pulumi-kubernetes/provider/v4"
PULUMI_KUBERNETES_MAIN = "cmd/pulumi-resource-kubernetes"


@dataclass(frozen=True)
class Target:
    """How one program is built from Go modules.

    Attributes:
        version: the program's own version, without a leading v.
        revision: the module's version; the program's where not given.
        files: files of the module to build from in place of its package (the module's path to the build's), for a
            package that lacks files which its own makefile generates.
        replace: lines of the build's go.mod, which do not come along from the module's.
        staging: the version of modules that the module replaces by folders of its own tree.
    """

    name: str
    program: str
    version: str
    module: str
    package: str
    use: str
    revision: str = ""
    files: dict[str, str] = field(default_factory=dict)
    replace: dict[str, str] = field(default_factory=dict)
    ldflags: str = "-w -s"
    tags: str = ""
    staging: str = ""

    @property
    def query(self) -> str:
        """The module at its version, as Go names it."""
        return f"{self.module}@{self.revision or f'v{self.version}'}"


TARGETS = {
    target.name: target
    for target in (
        Target(
            name="engine",
            program="pulumi",
            version=ENGINE,
            module="github.com/pulumi/pulumi/pkg/v3",
            package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
            use="the Pulumi command line",
            replace={
                "github.com/atotto/clipboard": "github.com/tgummerer/clipboard v0.0.0-20241001131231-d02d263e614e"
            },
            ldflags=f"-w -s -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version={ENGINE}",
            tags="osusergo,grpcnotrace",
        ),
        Target(
            name="pulumi-kubernetes",
            program="pulumi-resource-kubernetes",
            version="4.34.2",
            module=PULUMI_KUBERNETES,
            package=".",
            use="Pulumi's plugin for Kubernetes",
            revision="v4.0.0-20260115033456-f47bc2d6f199",
            files={
                f"{PULUMI_KUBERNETES_MAIN}/main.go": "main.go",
                f"{PULUMI_KUBERNETES_MAIN}/schema.json": "schema-embed.json",
                f"{PULUMI_KUBERNETES_MAIN}/terraform-mapping.json": "terraform-mapping-embed.json",
            },
            replace={
                "github.com/pulumi/pulumi-kubernetes/sdk/v4": "github.com/pulumi/pulumi-kubernetes/sdk/v4 v4.24.0"
            },
            ldflags=f"-w -s -X {PULUMI_KUBERNETES}/pkg/version.Version=4.34.2",
        ),
        Target(
            name="etcd",
            program="etcd",
            version="3.7.3",
            module="go.etcd.io/etcd/server/v3",
            package="go.etcd.io/etcd/server/v3",
            use="the store of a Kubernetes API server",
        ),
        Target(
            name="kube-apiserver",
            program="kube-apiserver",
            version=KUBERNETES,
            module="k8s.io/kubernetes",
            package="k8s.io/kubernetes/cmd/kube-apiserver",
            use="a real Kubernetes API server",
            ldflags=f"-w -s -X k8s.io/component-base/version.gitVersion=v{KUBERNETES}",
            staging="v0.35.4",
        ),
        Target(
            name="kwok",
            program="kwok",
            version="0.8.0",
            module="sigs.k8s.io/kwok",
            package="sigs.k8s.io/kwok/cmd/kwok",
            use="Kubernetes nodes without machines",
        ),
    )
}
