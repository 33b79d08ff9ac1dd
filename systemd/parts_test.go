package systemd_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"regexp"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// manual is the commands under a heading of the manual, block by block.
func (h *host) manual(heading string) (blocks []string) {
	h.Helper()
	text := h.read("/nest/checkout/docs/operations.md")
	_, rest, found := strings.Cut(text, "\n"+heading+"\n")
	if !found {
		h.Fatalf("the manual has no %q", heading)
	}
	section := regexp.MustCompile(`(?m)^#+ `).Split(rest, 2)[0]
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) == 0 {
		h.Fatalf("the manual has no commands under %q", heading)
	}
	return blocks
}

// install follows the manual. The nest has no Go: the build was done before.
func install(h *host) {
	const compile = "go build -o kusto-agent ./cmd/agent\n"
	blocks := h.manual("## Install")
	rest, found := strings.CutPrefix(blocks[0], compile)
	if !found {
		h.Fatalf("the manual does not begin with %q", compile)
	}
	blocks[0] = rest
	for _, b := range blocks {
		h.sh(b, secret+"\n")
	}
	h.properties("ActiveState=active", "SubState=running", "Type=notify", "UnitFileState=enabled", "NRestarts=0", "User=kusto-agent", "WatchdogUSec=1min")
	for _, path := range []string{"/var/log/app/a.json", "/tmp/app/a.json"} {
		f := h.logs(path)
		f.write(1000)
		f.awaitOnce()
	}
	if log := h.log(); strings.Contains(log, secret) {
		h.Errorf("the secret is in the log:\n%s", log)
	}
}

// commands: those of the manual find the state and the secret of the service, whose configuration names
// neither folder, whether it runs or not; and what root changes in the state the service can read.
func commands(h *host) {
	says := map[string]string{
		"files":                      "/var/log/app/a.json",
		"audit":                      "2000 records",
		"spool ls":                   " /var/lib/kusto-agent/spool",
		"quarantine ls":              "1 record",
		"query 'App | count' --json": "2000",
		"setup":                      "",
	}
	all := func(names ...string) {
		h.Helper()
		for _, name := range names {
			if out := h.sh("cd / && kusto-agent "+name+" 2>&1", ""); !strings.Contains(strings.ReplaceAll(out, ",", ""), says[name]) {
				h.Errorf("%s: %s", name, out)
			}
		}
	}
	h.write("/var/log/app/bad.json", "not JSON\n")
	h.until("the bad record is in quarantine", func() bool {
		return strings.Contains(h.sh("cd / && kusto-agent quarantine ls 2>&1", ""), says["quarantine ls"])
	})
	all("files", "audit", "spool ls", "query 'App | count' --json")
	h.sh("cd / && runuser -u kusto-agent kusto-agent files", "")
	h.systemctl("stop", service)
	all("audit", "spool ls", "quarantine ls", "query 'App | count' --json")
	h.sh("cd / && kusto-agent quarantine rm --all --yes", "")
	h.systemctl("start", service)
	f := h.logs("/var/log/app/commands.json")
	f.write(10)
	f.awaitOnce()
	if out := h.sh("find /var/lib/kusto-agent ! -user kusto-agent", ""); out != "" {
		h.Errorf("the state has files of others:\n%s", out)
	}
	h.remove("/var/log/app/bad.json")
}

// activeWhenReady: a start lasts until the agent says that it reads. It is held
// up by its configuration, which is a pipe that nobody writes to yet.
func activeWhenReady(h *host) {
	h.systemctl("stop", service)
	finish := h.slowConfig(func() { h.systemctl("start", "--no-block", service) })
	h.properties("ActiveState=activating", "SubState=start")
	finish()
	h.systemctl("start", service) // joins the start that is under way
	h.properties("ActiveState=active")
	f := h.logs("/var/log/app/ready.json")
	f.write(10)
	f.awaitOnce()
}

// slowConfig makes the configuration a pipe that nobody writes to and has it read.
// The function it returns puts it back, and lets the reader go on.
func (h *host) slowConfig(read func()) (finish func()) {
	h.Helper()
	config := h.read(configPath)
	h.remove(configPath)
	if err := syscall.Mkfifo(configPath, 0o640); err != nil {
		h.Fatal(err)
	}
	h.owned(configPath, service, 0o640)
	read()
	var pipe *os.File
	h.until("the agent opens its configuration", func() bool {
		fd, err := unix.Open(configPath, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENXIO) { // nobody reads
			return false
		} else if err != nil {
			h.Fatal(err)
		}
		pipe = os.NewFile(uintptr(fd), configPath)
		return true
	})
	return func() {
		h.Helper()
		h.remove(configPath)
		h.write(configPath, config)
		h.owned(configPath, service, 0o640)
		if _, err := pipe.WriteString(config); err != nil {
			h.Fatal(err)
		}
		if err := pipe.Close(); err != nil {
			h.Fatal(err)
		}
	}
}

// cleanStop: a stop while records are written ends well by itself, and the next
// start goes on where it ended.
func cleanStop(h *host) {
	f := h.logs("/var/log/app/stop.json")
	stopWriting := f.keepWriting()
	f.await(200)
	h.systemctl("stop", service)
	h.properties("ActiveState=inactive", "Result=success", "ExecMainCode=1", "ExecMainStatus=0")
	stopWriting()
	if n := f.doubled(); n != 0 {
		h.Errorf("%d records stored more than once", n)
	}
	if log := h.log(); strings.Contains(log, "timed out") {
		h.Errorf("systemd had to end it:\n%s", log)
	}
	h.systemctl("start", service)
	f.awaitOnce()
}

// killed: systemd starts it again after the RestartSec of the unit, and nothing
// is lost. A record may be stored twice only if the log says so.
func killed(h *host) {
	had := h.number("NRestarts")
	f := h.logs("/var/log/app/kill.json")
	stopWriting := f.keepWriting()
	f.await(200)
	h.signal(syscall.SIGKILL)
	h.untilRestarted(had)
	stopWriting()
	if n := f.awaitAll(); n != 0 && !strings.Contains(h.log(), "may be stored twice") {
		h.Errorf("%d records stored twice, and no word of it:\n%s", n, h.log())
	}
}

// reloaded: a reload puts the configuration in force and keeps the process. With a bad
// one it fails, tells why, and the old one goes on. systemd knows when it is under way.
func reloaded(h *host) {
	config, pid := h.read(configPath), h.show("MainPID")
	reload := func() status {
		was := h.status().Config.Time
		h.systemctl("reload", service)
		h.until("configuration looked at", func() bool { return h.status().Config.Time.After(was) })
		return h.status()
	}
	if got := reload().Config.Error; got != "" {
		h.Errorf("a sound configuration: %s", got)
	}
	h.write(configPath, "nonsense: true\n"+config)
	was := h.status().Config.Time
	if out, err := exec.Command("systemctl", "reload", service).CombinedOutput(); err == nil {
		h.Errorf("a bad configuration is reloaded: %s", out)
	}
	h.properties("ActiveState=active", "SubState=running", "MainPID="+pid)
	if log := h.log(); !strings.Contains(log, "agent.yaml:1:1: nonsense: unknown key") {
		h.Errorf("the log does not say what is wrong with the configuration:\n%s", log)
	}
	if got := h.status().Config; got.Error != "" || !got.Time.Equal(was) {
		h.Errorf("the agent read a bad configuration: %+v", got)
	}
	h.signal(syscall.SIGHUP) // as those do who do not ask systemd
	h.until("the bad configuration is rejected", func() bool { return strings.Contains(h.status().Config.Error, "nonsense") })
	h.write(configPath, config)
	if got := reload().Config.Error; got != "" {
		h.Errorf("a sound configuration again: %s", got)
	}
	f, more := h.logs("/var/log/app/reload.json"), h.logs("/var/log/more/reload.json")
	f.write(10)
	more.write(10)
	f.awaitOnce()
	if n := len(more.stored()); n != 0 {
		h.Errorf("%d records stored of a file that no pattern matches yet", n)
	}
	h.write(configPath, strings.Replace(config, "/var/log/app/*.json", "/var/log/app/*.json, /var/log/more/*.json", 1))
	if got := reload().Config.Error; got != "" {
		h.Errorf("another pattern: %s", got)
	}
	f.write(10)
	more.write(10)
	f.awaitOnce()
	more.awaitOnce()
	h.write(configPath, config)
	finish := h.slowConfig(func() { h.signal(syscall.SIGHUP) })
	h.until("systemd knows that it reloads", func() bool { return h.show("ActiveState") == "reloading" })
	finish()
	h.until("systemd knows that it is done", func() bool { return h.show("ActiveState") == "active" })
	h.properties("SubState=running", "MainPID="+pid)
	f.write(10)
	f.awaitOnce()
}

// statusText: systemctl status has the headline, and follows it.
func statusText(h *host) {
	says := func(word string) {
		h.Helper()
		h.until("systemd is told "+word, func() bool { return strings.Contains(h.show("StatusText"), word) })
	}
	f := h.logs("/var/log/app/statustext.json")
	f.write(10)
	f.awaitOnce()
	says("Up to date: all that was read was accepted.")
	config := h.read(configPath)
	h.write(configPath, "nonsense: true\n"+config)
	h.signal(syscall.SIGHUP)
	says("Delivering, with 1 problem.")
	h.write(configPath, config)
	h.systemctl("reload", service)
	says("Up to date: all that was read was accepted.")
}

// priorities: the journal has each line with its own.
func priorities(h *host) {
	config := h.read(configPath)
	h.write(configPath, "nonsense: true\n"+config)
	h.signal(syscall.SIGHUP)
	ask := func(priority, text string) func() bool {
		return func() bool {
			h.sh("journalctl --sync", "")
			return strings.Contains(h.sh("journalctl --no-pager --output=cat PRIORITY="+priority+" _SYSTEMD_INVOCATION_ID="+h.show("InvocationID")+" || true", ""), text)
		}
	}
	h.until("an error with the priority of one", ask("3", `msg="reload rejected`))
	h.until("what is worth knowing with its priority", ask("6", `msg="agent is running"`))
	h.write(configPath, config)
	h.systemctl("reload", service)
}

// watched: an agent that stands still is ended and started again. The times of
// the unit are shortened.
func watched(h *host) {
	h.drop("WatchdogSec=1\nRestartSec=100ms\n")
	h.systemctl("restart", service)
	had, id := h.number("NRestarts"), h.show("InvocationID")
	f := h.logs("/var/log/app/watchdog.json")
	f.write(10)
	f.awaitOnce()
	for range 2 {
		was := h.show("WatchdogTimestampMonotonic")
		h.until("the watchdog is fed", func() bool { return h.show("WatchdogTimestampMonotonic") != was })
	}
	h.properties(fmt.Sprintf("NRestarts=%d", had))
	h.signal(syscall.SIGSTOP)
	f.write(10)
	h.untilRestarted(had)
	f.awaitAll()
	h.sh("journalctl --sync", "")
	if log := h.sh("journalctl --no-pager --output=cat INVOCATION_ID="+id, ""); !strings.Contains(log, "Failed with result 'watchdog'") {
		h.Errorf("it did not end by the watchdog:\n%s", log)
	}
}

// unusable: systemd does not try a bad configuration again.
func unusable(h *host) {
	config := h.read(configPath)
	h.write(configPath, "nonsense: true\n")
	if out, err := exec.Command("systemctl", "restart", service).CombinedOutput(); err == nil {
		h.Errorf("started: %s", out)
	}
	h.properties("ActiveState=failed", "SubState=failed", "Result=exit-code", "ExecMainStatus=78", "NRestarts=0")
	h.write(configPath, config)
	h.systemctl("start", service)
	h.properties("ActiveState=active")
}

// sandboxed looks at the process itself, and through its eyes.
func sandboxed(h *host) {
	u, err := user.Lookup(service)
	if err != nil {
		h.Fatal(err)
	}
	status := h.process("status")
	for _, want := range []string{
		`Uid:\s` + u.Uid + `\s`, `Gid:\s` + u.Gid + `\s`, `NoNewPrivs:\s1\n`, `Seccomp:\s2\n`,
		`CapInh:\s0+\n`, `CapPrm:\s0+\n`, `CapEff:\s0+\n`, `CapBnd:\s0+\n`, `CapAmb:\s0+\n`,
	} {
		if !regexp.MustCompile(want).MatchString(status) {
			h.Errorf("no %q in the status of the process:\n%s", want, status)
		}
	}
	if u.Uid == "0" {
		h.Error("it runs as root")
	}
	// A manager that may not raise its own limit hands that one on.
	if got := openFiles(h.process("limits")); got != "65536" && got != openFiles(h.read("/proc/1/limits")) {
		h.Errorf("it may open %q files", got)
	}
	info, err := os.Stat("/var/lib/kusto-agent")
	if err != nil {
		h.Fatal(err)
	}
	if owner := fmt.Sprint(info.Sys().(*syscall.Stat_t).Uid); info.Mode() != os.ModeDir|0o700 || owner != u.Uid {
		h.Errorf("state folder: %v of %s", info.Mode(), owner)
	}
	h.writable()
}

// openFiles is the hard limit of open files in the limits of a process.
func openFiles(limits string) string {
	m := regexp.MustCompile(`Max open files +\d+ +(\d+)`).FindStringSubmatch(limits)
	if m == nil {
		return ""
	}
	return m[1]
}

// writable: of all that the service sees only its state folder is.
func (h *host) writable() {
	for _, dir := range []string{
		"/", "/etc", "/etc/kusto-agent", "/usr", "/usr/bin", "/home", "/root", "/var/log", "/var/log/app",
		"/tmp", "/tmp/app", "/var/tmp", "/run", "/run/lock", "/dev", "/dev/shm", "/sys/fs/cgroup",
	} {
		if err := h.touchInside(dir); err == nil || !strings.Contains(err.Error(), "Read-only file system") {
			h.Errorf("write to %s: %v", dir, err)
		}
	}
	if err := h.touchInside("/var/lib/kusto-agent"); err != nil {
		h.Errorf("write to the state folder: %v", err)
	}
}

// touchInside makes a file and removes it where the service would, as a root
// whom no permission stops, but mounts do.
func (h *host) touchInside(dir string) error {
	h.Helper()
	path := dir + "/probe"
	cmd := exec.Command("nsenter", "--target", h.show("MainPID"), "--mount", "--", "sh", "-c", "touch "+path+" && rm "+path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// rotated: in its sandbox the service follows a file through renaming, removal and
// truncation, also while it is stopped or killed.
func rotated(h *host) {
	const path = "/var/log/app/rotate.json"
	f := h.logs(path)
	again := func() { f.file = h.logs(path).file }
	rename := func(to string) {
		h.Helper()
		if err := os.Rename(path, to); err != nil {
			h.Fatal(err)
		}
	}
	f.write(100)
	rename(path + ".1") // no pattern matches it
	f.write(100)
	again()
	f.write(100)
	f.awaitOnce()
	rename("/var/log/app/rotate-1.json") // one does
	again()
	f.write(100)
	f.awaitOnce()
	for range 2 { // ext4 and tmpfs give out the inode again
		h.remove(path)
		f.write(10)
		again()
		f.write(10)
		f.awaitOnce()
	}
	for range 2 {
		if err := os.Truncate(path, 0); err != nil {
			h.Fatal(err)
		}
		f.write(20)
		f.awaitOnce()
	}
	h.systemctl("stop", service)
	f.write(10)
	rename(path + ".2")
	again()
	f.write(10)
	h.systemctl("start", service)
	f.awaitOnce()
	had := h.number("NRestarts")
	f.write(10)
	h.signal(syscall.SIGKILL)
	rename(path + ".3")
	again()
	f.write(10)
	h.untilRestarted(had)
	if n := f.awaitAll(); n != 0 && !strings.Contains(h.log(), "may be stored twice") {
		h.Errorf("%d records stored twice, and no word of it:\n%s", n, h.log())
	}
}

// unreadable: a file of others is told once, harms nothing, and is taken up
// when it is given to the group, without a restart.
func unreadable(h *host) {
	f, other := h.logs("/var/log/app/closed.json"), h.logs("/var/log/app/open.json")
	h.owned(f.file.Name(), "root", 0o600)
	h.systemctl("restart", service)
	f.write(10)
	for range 3 {
		other.write(10)
		other.awaitOnce()
	}
	told := func() int { return strings.Count(h.log(), "file cannot be read") }
	h.until("the closed file is told of", func() bool { return told() > 0 })
	f.write(10)
	other.write(10)
	other.awaitOnce()
	if n := told(); n != 1 {
		h.Errorf("told %d times:\n%s", n, h.log())
	}
	if n := len(f.stored()); n != 0 {
		h.Errorf("%d records of it were read", n)
	}
	h.owned(f.file.Name(), "adm", 0o640)
	f.awaitOnce()
}

// readsAll is the capability of the manual, for a file nobody grants.
func readsAll(h *host) {
	text := h.read("/nest/checkout/docs/operations.md")
	_, rest, _ := strings.Cut(text, "```ini\n[Service]\n")
	settings, _, found := strings.Cut(rest, "```")
	if !found {
		h.Fatal("the manual has no drop-in")
	}
	f := h.logs("/var/log/app/all.json")
	h.owned(f.file.Name(), "root", 0o600)
	f.write(10)
	h.drop(settings)
	h.systemctl("restart", service)
	f.awaitOnce()
	h.remove(f.file.Name())
}

// noSecret: without a credential the service runs, tells what is wrong, and a
// restart after the mending is enough.
func noSecret(h *host) {
	h.remove(credential)
	h.systemctl("restart", service)
	f := h.logs("/var/log/app/nosecret.json")
	f.write(10)
	h.until("the missing secret is told", func() bool {
		r := h.status().Routes
		return len(r) == 1 && strings.Contains(r[0].Hold.Message, "client_secret_file") && strings.Contains(r[0].Hold.Fix, "/etc/credstore")
	})
	h.properties("ActiveState=active", "NRestarts=0")
	h.sh(h.manual("## Install")[1], secret)
	began := time.Now()
	h.systemctl("restart", service)
	f.awaitOnce()
	h.Logf("records held for want of a secret are stored %v after the restart", time.Since(began).Round(time.Millisecond))
}

// secretInFile is the manual's way for a systemd without a credential store.
func secretInFile(h *host) {
	config := h.read(configPath)
	h.remove(credential)
	h.sh(h.manual("### A systemd without a credential store")[0], secret+"\n")
	h.write(configPath, strings.Replace(config, "client_secret_file: ", "client_secret_file: /etc/kusto-agent/client-secret #", 1))
	h.systemctl("restart", service)
	f := h.logs("/var/log/app/insecret.json")
	f.write(10)
	f.awaitOnce()
	h.write(configPath, config)
	h.remove("/etc/kusto-agent/client-secret")
}

// secretEncrypted is the manual's way to keep no plain secret on disk.
func secretEncrypted(h *host) {
	h.sh(h.manual("### The secret, encrypted on disk")[0], secret)
	if _, err := os.Stat(credential); !errors.Is(err, os.ErrNotExist) {
		h.Errorf("the plain secret is still there: %v", err)
	}
	f := h.logs("/var/log/app/encrypted.json")
	f.write(10)
	f.awaitOnce()
}

// instances: two agents of the template beside the service, each with a configuration, a
// state, a spool, a secret and a port of its own, and nothing is set for that.
func instances(h *host) {
	h.sh(h.manual("### Several agents on one machine")[0], secret+"\n")
	config := h.read(configPath)
	where := make(map[string]bool)
	for _, name := range []string{"a", "b"} {
		path := "/etc/kusto-agent/instances/" + name + ".yaml"
		h.write(path, strings.ReplaceAll(config, "/app/", "/"+name+"/"))
		h.owned(path, service, 0o640)
		h.write("/etc/credstore/kusto-agent@"+name+".client-secret", secret)
		unit := "kusto-agent@" + name
		h.systemctl("start", unit)
		h.Cleanup(func() { h.systemctl("stop", unit) })
		f := h.logs("/var/log/" + name + "/instance.json")
		f.write(10)
		f.awaitOnce()
		state := "/var/lib/kusto-agent@" + name
		for _, part := range []string{"journal", "spool", "agent.sock"} {
			if _, err := os.Stat(state + "/" + part); err != nil {
				h.Error(err)
			}
		}
		log := h.sh("journalctl --sync; journalctl --no-pager --output=cat _SYSTEMD_UNIT="+unit+".service", "")
		m := regexp.MustCompile(`msg="telemetry endpoint is listening" address=(\S+)`).FindStringSubmatch(log)
		if m == nil {
			h.Fatalf("no address in the log:\n%s", log)
		}
		where[m[1]] = true
		if !strings.Contains(string(h.get("http://"+m[1]+"/api/v1/status")), path) {
			h.Errorf("at %s another agent answers", m[1])
		}
		if out := h.sh("kusto-agent status --json --state-dir "+state+" || true", ""); !strings.Contains(out, path) {
			h.Errorf("in %s another agent answers:\n%s", state, out)
		}
		found := h.sh("kusto-agent check --json --config "+path+" || true", "")
		for _, want := range []string{`"` + state + `"`, `"` + state + `/quarantine"`, "a token was given to"} {
			if !strings.Contains(found, want) {
				h.Errorf("check does not look at %s:\n%s", want, found)
			}
		}
		if strings.Contains(found, "/var/lib/kusto-agent/") {
			h.Errorf("check looks at the state of another agent:\n%s", found)
		}
		h.systemctl("reload", unit)
	}
	if len(where) != 2 || where["127.0.0.1:5878"] {
		h.Errorf("the instances listen on %v", where)
	}
	const named = "/etc/kusto-agent/instances/a.yaml"
	if out := h.sh("kusto-agent status --json --config "+named+" || true", ""); !strings.Contains(out, named) {
		h.Errorf("the status of another agent is shown:\n%s", out)
	}
	h.properties("ActiveState=active")
}
