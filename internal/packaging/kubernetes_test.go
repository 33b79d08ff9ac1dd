package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// deployed is what kustomize makes of the base, as the API server would read it.
type deployed struct {
	namespace corev1.Namespace
	account   corev1.ServiceAccount
	config    corev1.ConfigMap
	set       appsv1.DaemonSet
}

// base builds docs/kubernetes. Every object is read strictly: a key that there is not, or
// that stands twice, is an error.
func base(t *testing.T) (d deployed) {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../docs/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	into := map[string]any{"v1 Namespace": &d.namespace, "v1 ServiceAccount": &d.account, "v1 ConfigMap": &d.config, "apps/v1 DaemonSet": &d.set}
	for _, r := range all.Resources() {
		kind := strings.TrimPrefix(r.GetApiVersion()+" "+r.GetKind(), "/")
		object := into[kind]
		if object == nil {
			t.Errorf("%s is not expected, or is there twice", kind)
			continue
		}
		delete(into, kind)
		text, err := r.AsYAML()
		if err == nil {
			err = yaml.UnmarshalStrict(text, object)
		}
		if err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for kind := range into {
		t.Errorf("%s is missing", kind)
	}
	return d
}

// TestKubernetesBase: the objects fit each other, and the agent.
func TestKubernetesBase(t *testing.T) {
	d := base(t)
	for kind, in := range map[string]string{"account": d.account.Namespace, "config": d.config.Namespace, "set": d.set.Namespace} {
		if in != d.namespace.Name {
			t.Errorf("%s is in the namespace %q, not in %q", kind, in, d.namespace.Name)
		}
	}
	labels := d.set.Spec.Template.Labels
	for name, value := range d.set.Spec.Selector.MatchLabels {
		if labels[name] != value {
			t.Errorf("the selector wants %s=%s, pods have %q", name, value, labels[name])
		}
	}
	if len(d.set.Spec.Selector.MatchLabels) == 0 || labels["azure.workload.identity/use"] != "true" || d.account.Annotations["azure.workload.identity/client-id"] == "" {
		t.Errorf("selector %v, labels %v, annotations %v", d.set.Spec.Selector, labels, d.account.Annotations)
	}
	pod := d.set.Spec.Template.Spec
	if pod.ServiceAccountName != d.account.Name || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken || len(pod.Containers) != 1 {
		t.Fatalf("%+v", pod)
	}
	agent := pod.Containers[0]
	if image, tag, _ := strings.Cut(agent.Image, ":"); !strings.HasSuffix(image, "/kusto-agent") || tag == "" {
		t.Errorf("the image is %s", agent.Image)
	}
	s := agent.SecurityContext
	if s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
		!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 || s.Privileged != nil || pod.HostNetwork || pod.HostPID {
		t.Errorf("it may do too much: %+v", s)
	}
	for name, probe := range map[string]*corev1.Probe{"/healthz": agent.LivenessProbe, "/readyz": agent.ReadinessProbe, "/healthz ": agent.StartupProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != strings.TrimSpace(name) || probe.HTTPGet.Port.StrVal != agent.Ports[0].Name {
			t.Errorf("probe of %s: %+v", name, probe)
		}
	}
	mounts := make(map[string]corev1.VolumeMount)
	for _, m := range agent.VolumeMounts {
		mounts[m.MountPath] = m
		if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
			t.Errorf("%s is mounted and no volume", m.Name)
		}
	}
	if len(mounts) != len(pod.Volumes) || !mounts["/var/log"].ReadOnly || mounts[stateDir].ReadOnly {
		t.Errorf("mounts %+v", mounts)
	}
	at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mounts["/etc/kusto-agent"].Name })
	if at < 0 || pod.Volumes[at].ConfigMap.Name != d.config.Name || !strings.HasPrefix(d.config.Name, "kusto-agent-") {
		t.Errorf("volumes %+v and the configuration %s", pod.Volumes, d.config.Name)
	}
}

// TestKubernetesConfiguration: the agent takes the configuration, which fits the pod.
func TestKubernetesConfiguration(t *testing.T) {
	d := base(t)
	path := filepath.Join(t.TempDir(), "agent.yaml")
	put(t, path, []byte(d.config.Data["agent.yaml"]), 0o644)
	cmd := exec.Command(filepath.Join(theBuild(t).work, "kusto-agent-"+theBuild(t).arch), "config", "show", "--config", path)
	cmd.Env = []string{"STATE_DIRECTORY=" + stateDir, "AZURE_FEDERATED_TOKEN_FILE=/t", "AZURE_CLIENT_ID=c", "AZURE_TENANT_ID=t", "NODE_NAME=node-1"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var shown struct {
		StateDir        string `json:"state_dir"`
		ShutdownTimeout string `json:"shutdown_timeout"`
		Telemetry       struct {
			Listen    string
			TokenFile string `json:"token_file"`
		}
		Inputs []struct{ Fields map[string]string }
	}
	if err := yaml.Unmarshal(out, &shown); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pod := d.set.Spec.Template.Spec
	if shown.StateDir != stateDir || shown.Telemetry.Listen != "0.0.0.0:5878" || pod.Containers[0].Ports[0].ContainerPort != 5878 || shown.Inputs[0].Fields["node"] != "node-1" {
		t.Errorf("%+v", shown)
	}
	if shown.ShutdownTimeout != "1m" || *pod.TerminationGracePeriodSeconds <= 60 {
		t.Errorf("a stop takes %s, and the pod waits %d s", shown.ShutdownTimeout, *pod.TerminationGracePeriodSeconds)
	}
	if !slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return strings.HasPrefix(shown.Telemetry.TokenFile, m.MountPath+"/") }) {
		t.Errorf("%s is mounted nowhere", shown.Telemetry.TokenFile)
	}
}

// The check sees what an API server would refuse.
func TestStrictReading(t *testing.T) {
	for _, bad := range []string{"spec: {template: {spec: {containrs: []}}}", "spec: {minReadySeconds: soon}", "kind: DaemonSet\nkind: DaemonSet"} {
		if err := yaml.UnmarshalStrict([]byte(bad), new(appsv1.DaemonSet)); err == nil {
			t.Errorf("taken: %s", bad)
		}
	}
}
