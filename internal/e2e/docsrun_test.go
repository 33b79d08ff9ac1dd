package e2e

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kusto-agent/cmd/agent/commands"
	"kusto-agent/emulator"
	"kusto-agent/internal/exit"
)

// notRun are the commands of the pages that TestDocsCommandsRun leaves out, by the reason.
var notRun = map[string][]string{
	"asks on a terminal: the sessions of the pages and the tests of init answer": {
		"README.md: kusto-agent init /srv/app/app.json",
		"docs/install.md: kusto-agent init --force --output /etc/kusto-agent/agent.yaml",
		"docs/quickstart.md: sudo kusto-agent init --force --output /etc/kusto-agent/agent.yaml /srv/app/app.json",
		"docs/operations.md: kusto-agent init /srv/app/app.json",
	},
	"draws on a terminal: the tests of top have one": {
		"README.md: kusto-agent top",
		"docs/operations.md: kusto-agent top",
	},
	"compiles or runs all tests: other steps of .ci/run do": {
		"README.md: go run ./cmd/agent demo",
		"README.md: go test ./...",
		"docs/operations.md: go build -o kusto-agent ./cmd/agent",
		"docs/install.md: go -C internal/packaging run . --output ../../dist",
	},
	"has … where a value is to be written": {
		"docs/operations.md: kusto-agent init /srv/app/app.json --cluster https://… --database Logs --tenant … --client-id … --output -",
		"docs/operations.md: kusto-agent spool replay --cluster https://old… --to default",
	},
	"needs a token of Azure": {
		"docs/query.md: kusto-agent query --cluster https://mycluster.westeurope.kusto.windows.net --database Logs 'App | take 10'",
		"docs/query.md: kusto-agent query --cluster 'Data Source=https://mycluster.westeurope.kusto.windows.net;Initial Catalog=Logs;Fed=True' 'App | take 10'",
	},
}

// standIns are the programs that this machine may not have, or that would change it.
var standIns = map[string]string{
	"sudo":             `exec "$@"`,
	"jq":               `cat`,
	"systemd-creds":    `for to; do :; done; cat >"$to"`,
	"openssl":          `case $1 in req) touch key.pem certificate.pem ;; *) echo 00 ;; esac`,
	"systemctl":        ``,
	"systemd-sysusers": ``,
	"apt":              ``,
	"az":               ``,
	"kubectl":          ``,
	"podman":           ``,
	"skopeo":           ``,
	// The group is not there.
	"install": `for a; do shift; case $a in -g | kusto-agent) [ "$a" = -g ] || [ "$was" = -g ] || set -- "$@" "$a" ;; *) set -- "$@" "$a" ;; esac; was=$a; done; exec /usr/bin/install "$@"`,
}

// ends are codes with which commands end for what they find here: a cluster that is down,
// and no table Raw.
var ends = map[string]int{
	"README.md: kusto-agent status": exit.Unreachable,
	"docs/operations.md: kusto-agent quarantine requeue 3:17 3:18 --to Raw --mapping m": exit.Failed,
}

// untilToldToEnd are the commands that run for ever.
var untilToldToEnd = []string{
	"README.md: kusto-agent run --config agent.yaml",
	"README.md: kusto-agent emulator",
	"README.md: kusto-agent tap App",
	"docs/operations.md: kusto-agent tap app",
	"docs/operations.md: kusto-agent tap app nginx --json --limit 10",
	"docs/query.md: kusto-agent emulator --listen 127.0.0.1:8080",
}

const ofThePages = `cluster: ${URL}
database: Logs
auth: {method: none}
state_dir: ${DIR}/state
telemetry: {listen: "127.0.0.1:0"}
batch: {max_wait: 10ms}
send: {retry: {initial: 10ms, max: 100ms, patience: 100ms}}
clusters: {far: {url: "${FAR}", database: Logs, auth: {method: none}}}
inputs:
  - {name: App, paths: ["${DIR}/srv/app/*.json"], table: App, mapping: App_json}
  - {name: app, paths: ["${DIR}/srv/other/*.json"], table: App, mapping: App_json}
  - {name: nginx, paths: ["${DIR}/srv/nginx/*.json"], table: App, mapping: App_json, cluster: far}
  - {name: web, paths: ["${DIR}/srv/web/*.json"], table: App, mapping: App_json, add: {host: a}}
`

// TestDocsCommandsRun runs the commands of the pages, page by page, in one folder and
// beside an agent that delivers, has records in quarantine, and spools what is for a
// cluster that is down. Paths of the machine lead into the folder, and the configuration
// of the service is the one there. What is not run is listed, with the reason.
func TestDocsCommandsRun(t *testing.T) {
	t.Parallel()
	left := make(map[string]bool)
	for _, lines := range notRun {
		for _, l := range lines {
			left[l] = true
		}
	}
	s := newSite(t, emulator.Options{Schema: &emulator.Schema{AnyDatabase: true}})
	sh := newDocsShell(s)
	all, n := pages(t), 0
	for _, page := range slices.Sorted(maps.Keys(all)) {
		if page == "docs/commands.md" { // how they are called, not calls
			continue
		}
		for _, b := range blocks(all[page]) {
			if b.language != "sh" {
				continue
			}
			for _, command := range shellLines(b.text) {
				name := page + ": " + command
				if _, except := left[name]; except {
					left[name] = false
					continue
				}
				n++
				if out, code := sh.run(name, command); code != ends[name] {
					t.Errorf("%s\nends with %d\n%s", name, code, out)
				}
			}
		}
	}
	for name, unseen := range left {
		if unseen {
			t.Errorf("no page has %s", name)
		}
	}
	t.Logf("%d commands ran, %d are not run", n, len(left))
	if n < 60 {
		t.Errorf("%d commands ran", n)
	}
}

// shellLines are the commands of a block without their comments.
func shellLines(text string) (all []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if at := strings.Index(line, " # "); at >= 0 && strings.Count(line[:at], "'")%2 == 0 {
			line = strings.TrimSpace(line[:at])
		}
		if line != "" && line[0] != '#' {
			all = append(all, line)
		}
	}
	return all
}

// docsShell runs commands as somebody would who reads the pages.
type docsShell struct {
	s    *site
	bin  string
	here *strings.Replacer
}

func newDocsShell(s *site) *docsShell {
	sh := &docsShell{s: s, bin: s.path("bin")}
	far, url := s.endpoint(emulator.Options{Schema: &emulator.Schema{AnyDatabase: true}})
	far.Fail(emulator.Fault{Match: emulator.Match{Table: "App"}, Status: 503})
	s.env = append(s.env, "FAR="+url)
	log := `{"time":"2026-03-01T12:00:00Z","level":"info","message":"listening","took":1.7}` + "\n"
	for _, dir := range []string{"app", "other", "nginx", "web"} {
		s.write("srv/"+dir+"/app.json", log)
	}
	s.write("agent.yaml", ofThePages)
	for _, name := range []string{"alone", "fresh"} {
		s.write(name+".yaml", regexp.MustCompile("(?m)^.*far.*\n").ReplaceAllString(strings.Replace(ofThePages, "${DIR}/state", "${DIR}/"+name, 1), ""))
	}
	s.write("sample.log", log)
	s.write("report.kql", "App | count")
	for _, dir := range []string{"etc/kusto-agent", "etc/prometheus", "etc/systemd/system", "usr/bin", "usr/lib/sysusers.d", "usr/share/man/man1", "usr/share/bash-completion/completions"} {
		s.must(os.MkdirAll(s.path(dir), 0o755))
	}
	s.must(os.CopyFS(s.path("systemd"), os.DirFS("../../systemd")))
	s.write("kusto-agent", "")
	exe, err := os.Executable()
	s.must(err)
	s.program("kusto-agent", "case \"$1 $2 \" in\n"+takesConfig()+"esac\n"+fmt.Sprintf("%s=1 %s=1 exec '%s' \"$@\"", asProgram, readsStdin, exe))
	for name, script := range standIns {
		s.program(name, script)
	}
	s.show(0, "setup", "--config", s.path("agent.yaml"))
	s.append("srv/other/app.json", strings.Repeat("no JSON\n", 10))
	p := s.launch("run", "--config", s.path("agent.yaml"))
	s.write("agent.yaml", strings.Replace(ofThePages, "127.0.0.1:0", p.await(1, "telemetry endpoint is listening").text("address"), 1))
	p.awaitBooks("app", func(a account) bool { return a.quarantined == 10 })
	p.awaitBooks("nginx", func(a account) bool { return a.spooled == 1 })
	ids := s.refusedIDs()
	sh.here = strings.NewReplacer("3:17", ids[0], "3:18", ids[1], "/etc/", s.path("etc")+"/", "/usr/", s.path("usr")+"/",
		"f7f92bfb", s.spooled()[0].Batch)
	return sh
}

// program puts a script into the PATH of the pages.
func (s *site) program(name, script string) {
	s.t.Helper()
	s.write("bin/"+name, "#!/bin/sh\n"+script+"\n")
	s.must(os.Chmod(s.path("bin/"+name), 0o755))
}

// takesConfig are cases of a shell that add the configuration to calls of commands that
// look for one, if they name none.
func takesConfig() string {
	var cases strings.Builder
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Flag("config") != nil && c.Runnable() {
			fmt.Fprintf(&cases, "'%s '*) case \"$* \" in *'--config '*) ;; *) set -- \"$@\" --config agent.yaml ;; esac ;;\n", strings.TrimPrefix(c.CommandPath(), "kusto-agent "))
		}
		for _, below := range c.Commands() {
			walk(below)
		}
	}
	walk(commands.Root())
	return cases.String()
}

func (sh *docsShell) run(name, command string) (out []byte, code int) {
	script := sh.here.Replace(command)
	for command, config := range map[string]string{"run": "alone.yaml", "preview": "fresh.yaml"} { // with state of their own
		if strings.HasPrefix(script, "kusto-agent "+command+" ") {
			script = strings.Replace(script, "agent.yaml", config, 1)
		}
	}
	if strings.HasPrefix(script, "kusto-agent emulator") { // the port may be taken
		script = strings.TrimSuffix(script, " --listen 127.0.0.1:8080") + " --listen 127.0.0.1:0"
	}
	if slices.Contains(untilToldToEnd, name) {
		script = "timeout -s INT 2 " + script + " || [ $? = 124 ]"
	}
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = sh.s.dir
	cmd.Env = append(os.Environ(), "PATH="+sh.bin+":"+os.Getenv("PATH"), "DIR="+sh.s.dir, "URL="+sh.s.url, "NO_COLOR=1", "STATE_DIRECTORY=", "JOURNAL_STREAM=", "GORACE=atexit_sleep_ms=0")
	cmd.Env = append(cmd.Env, sh.s.env...)
	cmd.Stdin = strings.NewReader("s3cret")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		sh.s.t.Fatalf("%s: %v", name, err)
	}
	return out, cmd.ProcessState.ExitCode()
}
