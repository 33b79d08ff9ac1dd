package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/nest"
)

// TestDebian installs, upgrades, removes and purges the package with apt and dpkg of this
// machine, under a systemd of its own. The parts build on each other.
func TestDebian(t *testing.T) {
	inNest(t, "deb", []string{"apt-get", "dpkg"}, []part{
		{"WithoutSystemd", withoutSystemd},
		{"Install", install},
		{"Unconfigured", unconfigured},
		{"UpgradeStopped", upgradeStopped},
		{"Run", run},
		{"Upgrade", upgrade},
		{"Remove", remove},
		{"Again", again},
		{"Purge", purge},
	})
}

// TestInstalledByRPM does the same with the other package and rpm, as far as rpm has
// something like it.
func TestInstalledByRPM(t *testing.T) {
	inNest(t, "rpm", []string{"rpm"}, []part{
		{"Install", installRPM},
		{"Run", run},
		{"Upgrade", upgradeRPM},
		{"Erase", eraseRPM},
	})
}

// part is one step of a test in a nest.
type part struct {
	name string
	run  func(machine)
}

// inNest runs the parts in one nest that has the packages of one kind.
func inNest(t *testing.T, kind string, tools []string, parts []part) {
	if nest.Inside() {
		for _, p := range parts {
			t.Run(p.name, func(t *testing.T) { p.run(machine{t}) })
		}
		return
	}
	n := bootNest(t, kind, append(tools, "nsenter", "unshare", nest.Manager))
	for _, p := range parts {
		if !t.Run(p.name, func(t *testing.T) { n.Test(t, t.Name()) }) {
			return // the others would tell nothing
		}
	}
}

// bootNest boots a systemd with an emulator and the packages of three versions, of
// which only the last one has another configuration to begin with.
func bootNest(t *testing.T, kind string, tools []string) *nest.Nest {
	t.Helper()
	if testing.Short() {
		t.Skip("not with -short: boots a systemd")
	}
	if os.Geteuid() != 0 {
		t.Skip("the kernel refuses namespaces to a user who is not root")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s, which is not installed", tool)
		}
	}
	m := theBuild(t)
	brought := t.TempDir()
	for _, version := range []string{"1.0.0", "1.1.0", "2.0.0"} {
		if kind == "rpm" && version == "1.1.0" {
			continue // no part asks for it
		}
		next := *m
		next.version = version
		next.tree = slices.Clone(m.tree)
		for i, f := range next.tree {
			if f.config && version == "2.0.0" {
				next.tree[i].text = append(slices.Clone(f.text), "# Something new.\n"...)
			}
		}
		_, text, err := next.pack(kind, runtime.GOARCH, next.tree)
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(brought, version+"."+kind), text, 0o644)
	}
	copyFile(t, filepath.Join(m.work, "kusto-agent-"+runtime.GOARCH), filepath.Join(brought, "emulator"))
	copyFile(t, nest.Binary(t), filepath.Join(brought, "test"))
	put(t, filepath.Join(brought, "units/nest.target"), []byte("[Unit]\nDefaultDependencies=no\nWants=systemd-journald.service emulator.service\n"), 0o644)
	put(t, filepath.Join(brought, "units/emulator.service"), []byte("[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/nest/emulator emulator --open --listen 127.0.0.1:8080\n"), 0o644)
	return nest.New(t, brought)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	put(t, to, text, 0o755)
}

func put(t *testing.T, path string, text []byte, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, mode); err != nil {
		t.Fatal(err)
	}
}

// machine is the one in the nest, as its administrator sees it.
type machine struct{ *testing.T }

// try runs a command of the shell and returns what it said.
func (m machine) try(script string) (string, error) {
	cmd := exec.Command("sh", "-ec", script)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// sh wants no failure of it.
func (m machine) sh(script string) string {
	m.Helper()
	out, err := m.try(script)
	if err != nil {
		m.Fatalf("%s\n%v\n%s", script, err, out)
	}
	return out
}

// apt installs a package of a file. It looks for none elsewhere, and needs none.
func (m machine) apt(action, what string) string {
	m.Helper()
	return m.sh("apt-get " + action + " --yes --no-install-recommends --option=APT::Sandbox::User=root --option=Dpkg::Options::=--force-confold --option=Dpkg::Options::=--force-unsafe-io " + what)
}

// dpkg does what apt would have it do.
func (m machine) dpkg(args string) string {
	m.Helper()
	return m.sh("dpkg --force-confold --force-unsafe-io " + args)
}

// want wants an expression in what a command says, even where it fails.
func (m machine) want(script, says string) {
	m.Helper()
	out, _ := m.try(script)
	if !regexp.MustCompile(says).MatchString(out) {
		m.Errorf("%s\n%s\nhas no %q", script, out, says)
	}
}

// gone wants none of the paths to be there.
func (m machine) gone(paths ...string) {
	m.Helper()
	for _, p := range paths {
		if _, err := os.Lstat(p); !os.IsNotExist(err) {
			m.Errorf("%s is there: %v", p, err)
		}
	}
}

func (m machine) until(what string, done func() bool) {
	m.Helper()
	end := time.Now().Add(nest.Deadline)
	tick := time.NewTicker(nest.Look)
	defer tick.Stop()
	for !done() {
		if time.Now().After(end) {
			m.Fatalf("waited in vain: %s", what)
		}
		<-tick.C
	}
}

func (m machine) show(property string) string {
	m.Helper()
	return strings.TrimSpace(m.sh("systemctl show --value --property=" + property + " kusto-agent"))
}

const logPath = "/var/log/app/app.json"

// append writes records and returns at once.
func (m machine) append(from, to int) {
	m.Helper()
	f, err := os.OpenFile(logPath, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		m.Fatal(err)
	}
	defer f.Close()
	for i := from; i < to; i++ {
		if _, err := fmt.Fprintf(f, "{\"seq\":%d}\n", i); err != nil {
			m.Fatal(err)
		}
	}
}

// get fetches from the emulator; empty: it has nothing, or is not there yet.
func get(url string) string {
	resp, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// awaitOnce waits until records 0 to n are stored and wants none of them twice.
func (m machine) awaitOnce(n int) {
	m.Helper()
	var all map[string]int
	m.until(fmt.Sprintf("%d records stored", n), func() bool {
		all = make(map[string]int)
		for line := range strings.Lines(get("http://127.0.0.1:8080/rows?db=Logs&table=App&format=text")) {
			all[line]++
		}
		return len(all) >= n
	})
	if len(all) != n {
		m.Errorf("%d different records are stored, %d were written", len(all), n)
	}
	for line, times := range all {
		if times > 1 {
			m.Errorf("%d times stored: %s", times, line)
		}
	}
}

// withoutSystemd: in a container nothing is started or stopped, and all of it works.
func withoutSystemd(m machine) {
	hidden := func(script string) string {
		m.Helper()
		return m.sh("unshare --mount sh -ec 'mount -t tmpfs none /run/systemd && " + script + "'")
	}
	if out := hidden("dpkg --force-unsafe-io --install /nest/1.0.0.deb"); !strings.Contains(out, "next three steps") {
		m.Errorf("the steps are not told:\n%s", out)
	}
	hidden("dpkg --purge kusto-agent")
	m.gone("/etc/kusto-agent", "/usr/bin/kusto-agent", "/usr/share/kusto-agent")
}

// install: nothing runs yet, and who installed it is told what to do.
func install(m machine) {
	m.sh("rm -f /usr/sbin/policy-rc.d") // with which a container forbids its packages to start anything
	out := m.apt("install", "/nest/1.0.0.deb")
	for _, step := range []string{"kusto-agent init ", "kusto-agent setup ", "systemctl enable --now kusto-agent"} {
		if !strings.Contains(out, step) {
			m.Errorf("no %q in what the installation says:\n%s", step, out)
		}
	}
	m.want("stat -c '%a %U %G' /etc/kusto-agent/agent.yaml", `^640 root kusto-agent\n$`)
	m.want("getent passwd kusto-agent", `/var/lib/kusto-agent:`)
	m.want("id -nG kusto-agent", `\bkusto-agent\b`)
	m.want("systemctl is-active kusto-agent", `^inactive\n$`)
	m.want("systemctl is-enabled kusto-agent", `^disabled\n$`)
	m.want("kusto-agent version", `^kusto-agent 1\.0\.0\n`)
	m.want("dpkg --verify kusto-agent", `^$`)
	m.want("dpkg-query --show --showformat='${Conffiles}' kusto-agent", `^\n? /etc/kusto-agent/agent.yaml [0-9a-f]{32}$`)
}

// unconfigured: the service says what is missing, and is not started again and again.
func unconfigured(m machine) {
	if out, err := m.try("systemctl start kusto-agent"); err == nil {
		m.Errorf("started: %s", out)
	}
	if got := m.show("ExecMainStatus"); got != "78" {
		m.Errorf("ended with %s", got)
	}
	m.sh("journalctl --sync")
	m.want("journalctl --no-pager --output=cat --unit=kusto-agent", "cluster")
	m.sh("systemctl reset-failed kusto-agent")
}

const config = `cluster: http://127.0.0.1:8080
database: Logs
auth: {method: none}
include: [conf.d/*.yaml]
batch: {max_wait: 50ms}
`

const included = `inputs:
  - paths: [` + logPath + `]
    table: App
    mapping: App_json
`

// run is what the steps come to.
func run(m machine) {
	put(m.T, logPath, nil, 0o644)
	m.sh("chgrp adm " + logPath + " && chmod 640 " + logPath)
	put(m.T, "/etc/kusto-agent/conf.d/app.yaml", []byte(included), 0o644)
	if err := os.WriteFile("/etc/kusto-agent/agent.yaml", []byte(config), 0); err != nil {
		m.Fatal(err)
	}
	m.sh("systemctl enable --now kusto-agent")
	m.append(0, 1000)
	m.awaitOnce(1000)
}

// upgrade: what runs goes on as the new version, nothing is lost or stored twice, and the
// configuration stays the user's.
func upgrade(m machine) {
	m.upgradeRunning(func() { m.apt("install", "/nest/2.0.0.deb") })
	m.want("cat /etc/kusto-agent/agent.yaml.dpkg-dist", "Something new")
}

// upgradeRunning upgrades an agent that has delivered 1000 records, while more are written.
func (m machine) upgradeRunning(install func()) {
	m.Helper()
	was := m.show("MainPID")
	stop, done := make(chan struct{}), make(chan int)
	// Started here, ended and awaited below.
	go func() {
		n := 1000
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				done <- n
				return
			case <-tick.C:
				m.append(n, n+20)
				n += 20
			}
		}
	}()
	install()
	close(stop)
	n := <-done
	if pid := m.show("MainPID"); pid == was || m.show("ActiveState") != "active" {
		m.Errorf("process %s was %s, and is %s", pid, was, m.show("ActiveState"))
	}
	m.want("readlink /proc/"+m.show("MainPID")+"/exe", `^/usr/bin/kusto-agent\n$`)
	m.awaitOnce(n)
	m.want("cat /etc/kusto-agent/agent.yaml", `^`+regexp.QuoteMeta(config)+`$`)
	m.want("stat -c '%a %U %G' /etc/kusto-agent/agent.yaml", `^640 root kusto-agent\n$`)
	put(m.T, "/nest/written", []byte(fmt.Sprint(n)), 0o644)
}

// upgradeStopped: what did not run does not run afterwards.
func upgradeStopped(m machine) {
	if out := m.dpkg("--install /nest/1.1.0.deb"); strings.Contains(out, "next three steps") {
		m.Errorf("an upgrade tells the steps of a first installation:\n%s", out)
	}
	m.want("systemctl is-active kusto-agent", `^inactive\n$`)
}

// remove stops it and leaves what belongs to the user.
func remove(m machine) {
	m.apt("remove", "kusto-agent")
	m.gone("/usr/bin/kusto-agent", "/usr/lib/systemd/system/kusto-agent.service", "/usr/share/kusto-agent")
	m.want("pgrep -x kusto-agent || echo none", `^none\n$`)
	m.want("cat /etc/kusto-agent/agent.yaml", `^`+regexp.QuoteMeta(config)+`$`)
	m.want("ls /var/lib/kusto-agent", `journal`)
}

// again: after a removal it goes on where it ended.
func again(m machine) {
	var n int
	if _, err := fmt.Sscan(m.sh("cat /nest/written"), &n); err != nil {
		m.Fatal(err)
	}
	m.append(n, n+10)
	m.dpkg("--install /nest/2.0.0.deb")
	m.sh("systemctl start kusto-agent")
	m.awaitOnce(n + 10)
}

// purge leaves nothing but the user, and what the administrator added.
func purge(m machine) {
	m.apt("purge", "kusto-agent")
	m.gone("/var/lib/kusto-agent", "/etc/kusto-agent/agent.yaml", "/etc/kusto-agent/agent.yaml.dpkg-dist",
		"/etc/systemd/system/multi-user.target.wants/kusto-agent.service")
	m.want("cat /etc/kusto-agent/conf.d/app.yaml", `^inputs`)
	m.want("getent passwd kusto-agent", `kusto-agent`)
	m.want("systemctl list-units --all --plain --no-legend 'kusto-agent*'", `^$`)
	m.want("dpkg-query --show --showformat='${Status}' kusto-agent", `no packages found`)
}

// rpm calls rpm with a database that begins empty, so that it knows of nothing the package
// depends on. Debian's has to be told that it is meant.
func (m machine) rpm(args string) string {
	m.Helper()
	return m.sh("rpm --dbpath /nest/rpm --force-debian --nodeps " + args)
}

// installRPM: the user is made before the files that belong to its group.
func installRPM(m machine) {
	m.sh("userdel kusto-agent 2>/dev/null || true; groupdel kusto-agent 2>/dev/null || true")
	out := m.rpm("--install /nest/1.0.0.rpm")
	if !strings.Contains(out, "next three steps") {
		m.Errorf("the steps are not told:\n%s", out)
	}
	m.want("rpm --dbpath /nest/rpm --verify --nodeps kusto-agent", `^$`)
	m.want("stat -c '%a %U %G' /etc/kusto-agent/agent.yaml", `^640 root kusto-agent\n$`)
	m.want("systemctl is-active kusto-agent", `^inactive\n$`)
	m.want("kusto-agent version", `^kusto-agent 1\.0\.0\n`)
}

func upgradeRPM(m machine) {
	m.upgradeRunning(func() {
		if out := m.rpm("--upgrade /nest/2.0.0.rpm"); strings.Contains(out, "next three steps") {
			m.Errorf("an upgrade tells the steps of a first installation:\n%s", out)
		}
	})
	m.want("cat /etc/kusto-agent/agent.yaml.rpmnew", "Something new")
	m.want("rpm --dbpath /nest/rpm --query kusto-agent", `^kusto-agent-2\.0\.0-1\.`)
}

// eraseRPM stops and disables it and its instances, and leaves a configuration that was
// changed and what the agent knows.
func eraseRPM(m machine) {
	m.sh("systemctl enable kusto-agent@second")
	m.rpm("--erase kusto-agent")
	m.gone("/usr/bin/kusto-agent", "/usr/lib/systemd/system/kusto-agent.service", "/usr/share/kusto-agent",
		"/etc/systemd/system/multi-user.target.wants/kusto-agent.service", "/etc/systemd/system/multi-user.target.wants/kusto-agent@second.service")
	m.want("pgrep -x kusto-agent || echo none", `^none\n$`)
	m.want("cat /etc/kusto-agent/agent.yaml.rpmsave", `^`+regexp.QuoteMeta(config)+`$`)
	m.want("ls /var/lib/kusto-agent", `journal`)
}
