package initconfig

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
)

// TestInitQuestions: a person agrees to what is suggested, or says another thing,
// and is asked again after a mistake.
func TestInitQuestions(t *testing.T) {
	t.Parallel()
	var asked bytes.Buffer
	c := &Answers{Output: "agent.yaml", Path: "/srv/app/*.json", identity: func() string { return "client_secret" }}
	answers := "\nhttps://c.westeurope.kusto.windows.net\na/b\nLogs\n\n\nMine\nmagic\nnone\n\nt\nid\n\n"
	c.Ask = console.Asker{In: bufio.NewReader(strings.NewReader(answers)), Out: &asked, On: true}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Query URL of the cluster: ", "Format [JSON]: ", "Table [App]: ", "Mapping [App_json]: ", "How to sign in [client_secret]: ", "not a way to sign in", "none is for a cluster on this machine", "File of the client secret [kusto-agent.client-secret]: "} {
		if !strings.Contains(asked.String(), want) {
			t.Errorf("it does not ask %q: %s", want, asked.String())
		}
	}
	cfg, err := config.Parse("agent.yaml", []byte(c.text()), os.LookupEnv, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if in := cfg.Inputs[0]; in.Table != "App" || in.Mapping != "Mine" || in.Database != "Logs" {
		t.Errorf("it makes %+v", in)
	}
	c = &Answers{Cluster: "http://localhost:1", Database: "D", Path: "/x/[a", Format: "CSV", Table: "T"}
	c.Ask = console.Asker{In: bufio.NewReader(strings.NewReader("none\n\n")), Out: &asked, On: true}
	if err := c.complete(); err == nil || !strings.Contains(err.Error(), "pattern") {
		t.Errorf("a pattern that is none: %v", err)
	}
	if c.Path = "/x/*"; c.complete() != nil || c.Mapping != "" || c.Auth != "none" {
		t.Errorf("without a mapping it makes %+v", c)
	}
	c = &Answers{Ask: console.Asker{In: bufio.NewReader(strings.NewReader("")), Out: &asked, On: true}}
	if err := c.complete(); err == nil {
		t.Error("no answer is taken for one")
	}
}

// TestFindLogs: what a program writes to is found, the last written first; what was rotated
// away, is empty or no text is not.
func TestFindLogs(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	write := func(name, text string, age time.Duration) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		at := now.Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write("app/app.json", "{}\n", time.Minute)
	write("app/app.json.1", "{}\n", time.Hour)
	write("app/app.log-20260301.gz", "x", time.Hour)
	write("web/access.log", "x\n", time.Second)
	write("web/logs/out", "x\n", time.Hour)
	write("web/empty.log", "", 0)
	write("web/program.log", "\x7fELF\x00\x00", 0)
	write("web/readme", "x\n", 0)
	write("web/.hidden/a.log", "x\n", 0)
	write("a/b/c/d/e/f/g.log", "x\n", 0)
	write("kusto-agent-state/quarantine/0000000000000001.jsonl", "{}\n", 0) // of an agent
	for _, name := range []string{"1", "2", "3", "4", "5"} {
		write("many/"+name+".csv", "x\n", 2*time.Hour)
	}
	if err := os.Symlink(filepath.Join(dir, "app"), filepath.Join(dir, "app", "circle.log")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range findLogs([]string{dir, dir + "/app", dir + "/nothing"}) {
		got = append(got, strings.TrimPrefix(l.path, dir+"/"))
	}
	want := "web/access.log app/app.json web/logs/out many/1.csv many/2.csv many/3.csv"
	if strings.Join(got, " ") != want {
		t.Errorf("found %q, want %s", got, want)
	}
}

// TestInitPaths: the paths that are proposed match the sample and what is rotated away of it, and no
// other log.
func TestInitPaths(t *testing.T) {
	t.Parallel()
	f := func(sample, want, matches string, files ...string) {
		t.Helper()
		dir := t.TempDir()
		for _, name := range append(files, sample) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("x\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c := &Answers{Sample: filepath.Join(dir, sample)}
		c.Path = c.pattern()
		if got := strings.TrimPrefix(c.Path, dir+"/"); got != want {
			t.Errorf("%s beside %q: %s, want %s", sample, files, got, want)
		}
		if got := c.matches(); !strings.Contains(got, matches) {
			t.Errorf("%s beside %q: %s, want %s", sample, files, got, matches)
		}
	}
	f("app.json", "*.json", "matches 1 file now")
	f("app.json", "*.json", "matches 3 files now", "app-2026-03-01.json", "app.1.json", "other.log")
	f("dpkg.log", "dpkg.log", "matches 1 file now", "dpkg.log.1", "alternatives.log")
	f("we ird[1].json", `we ird\[1\].json`, "matches 1 file now", "a.json", "b.json")
	f("app-2026-03-01.json", "app-[0-9]*.json", "matches 2 files now", "app-2026-03-02.json", "app-other.json", "app.json", "b.json")
	f("2026-03-01.log", "*.log", "matches 2 files now", "2026-03-02.log")
	f("2026-03-01.log", "[0-9]*.log", "matches 2 files now", "2026-03-02.log", "app.log")
	f("z.json.gz", "z.json.gz", "matches 1 file now", "y.json.gz")
	f("syslog", "syslog", "matches 1 file now", "messages")
	c := &Answers{Path: "/nowhere/*.json"}
	if got := c.matches(); !strings.Contains(got, "matches no file yet") {
		t.Error(got)
	}
}

// TestInitWhich: a person chooses among the logs of the machine; without one they are named.
func TestInitWhich(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.json", "b.csv"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(map[string]string{"a.json": "{\"n\":1}\n", "b.csv": "x,y\n1,2\n"}[name]), 0o644); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-time.Hour)
		if name == "b.csv" {
			at = at.Add(-time.Hour)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	f := func(answer, sample, says string) {
		t.Helper()
		var asked bytes.Buffer
		c := &Answers{folders: []string{dir}}
		c.Ask = console.Asker{In: bufio.NewReader(strings.NewReader(answer)), Out: &asked, On: true}
		if err := c.which(); (err != nil) != (sample == "") || c.Sample != sample || !strings.Contains(asked.String(), says) {
			t.Errorf("%q chooses %s, %v: %s", answer, c.Sample, err, asked.String())
		}
	}
	f("\n", dir+"/a.json", "   1  "+dir+"/a.json")
	f("2\n", dir+"/b.csv", "written 2h 0m ago\nWhich one, by its number, or the path of another [1]: ")
	f("3\n0\n1\n", dir+"/a.json", "there is no 3; want 1 to 2, or a path")
	f("/nothing\n/dev/null\n", "/dev/null", "stat /nothing: no such file or directory")
	f("", "", "")
	c := &Answers{folders: []string{dir}}
	if err := c.which(); err != nil || c.Sample != "" {
		t.Errorf("without a person: %s, %v", c.Sample, err)
	}
	if err := c.complete(); err == nil || !strings.Contains(err.Error(), "missing: --cluster, ") || !strings.Contains(err.Error(), "one of which can be the sample: "+dir+"/a.json, "+dir+"/b.csv") {
		t.Errorf("without a person it says %v", err)
	}
	c = &Answers{Cluster: "https://c.westeurope.kusto.windows.net", Auth: "client_secret"}
	if err := c.complete(); err == nil || !strings.Contains(err.Error(), "--client-id\nneeds none: --auth managed_identity") {
		t.Errorf("without a client it says %v", err)
	}
	c = &Answers{folders: []string{t.TempDir()}}
	if err := c.which(); err != nil || c.found != nil {
		t.Errorf("where there is none: %v %v", c.found, err)
	}
}

// TestInitIdentity: a secret is asked for only where nothing else would do.
func TestInitIdentity(t *testing.T) {
	t.Parallel()
	f := func(c Answers, here, want string) {
		t.Helper()
		c.identity = func() string { return here }
		if got := c.likelyMethod(); got != want {
			t.Errorf("%+v on %s: %s, want %s", c, here, got, want)
		}
	}
	const url = "https://c.westeurope.kusto.windows.net"
	f(Answers{Cluster: url}, "managed_identity", "managed_identity")
	f(Answers{Cluster: url, ClientID: "id"}, "managed_identity", "managed_identity")
	f(Answers{Cluster: url, Tenant: "t", ClientID: "id"}, "managed_identity", "client_secret")
	f(Answers{Cluster: url, ClientSecretFile: "f"}, "azure_cli", "client_secret")
	f(Answers{Cluster: url, CertificateFile: "f"}, "azure_cli", "certificate")
	f(Answers{Cluster: url, TokenFile: "f"}, "azure_cli", "token_file")
	f(Answers{Cluster: "http://127.0.0.1:1"}, "azure_cli", "none")

	c := Answers{Output: "agent.yaml", Cluster: url, Database: "D", Path: "/x/*.json", Auth: "managed_identity"}
	if err := c.complete(); err != nil || !strings.Contains(c.text(), "\n  method: managed_identity ") || strings.Contains(c.text(), "client_id") {
		t.Errorf("with a managed identity: %v\n%s", err, c.text())
	}
}

// TestIdentityHere: what the environment says of this machine.
func TestIdentityHere(t *testing.T) {
	for _, name := range []string{"AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "MSI_ENDPOINT"} {
		t.Setenv(name, "")
	}
	dir := t.TempDir()
	t.Setenv("AZURE_CONFIG_DIR", dir)
	without := "client_secret"
	if isAzureMachine() {
		without = "managed_identity"
	}
	f := func(want string) {
		t.Helper()
		if got := identity(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	f(without)
	if err := os.WriteFile(filepath.Join(dir, "azureProfile.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if without == "client_secret" {
		f("azure_cli")
	}
	t.Setenv("MSI_ENDPOINT", "http://localhost")
	f("managed_identity")
	t.Setenv("AZURE_FEDERATED_TOKEN_FILE", "/x")
	f("workload_identity")
}

// TestInitTeaches: what stands in comments holds as it stands.
func TestInitTeaches(t *testing.T) {
	t.Parallel()
	commented := regexp.MustCompile(`(?m)^( *)# ([a-z_]+: .*)$`)
	for _, name := range []string{"JSON", "TXT"} {
		c := &Answers{Output: "agent.yaml", Cluster: "http://127.0.0.1:1", Database: "D", Path: "/x/*.json", Format: name, Table: "T"}
		if err := c.complete(); err != nil {
			t.Fatal(err)
		}
		text := c.text()
		n := len(commented.FindAllString(text, -1))
		text = commented.ReplaceAllString(text, "$1$2")
		cfg, err := config.Parse("agent.yaml", []byte(text), os.LookupEnv, config.Options{})
		if err != nil || n != 9 {
			t.Fatalf("%s: %d keys in comments, %v\n%s", name, n, err, text)
		}
		if in := cfg.Inputs[0]; in.StartAt != "end" || len(in.Exclude) != 1 {
			t.Errorf("%s: %+v", name, in)
		}
	}
}

// TestInitIncludes: what lies in conf.d beside the file is part of the configuration, as a package has it: a
// recipe that is put there is read also after init has written the file anew.
func TestInitIncludes(t *testing.T) {
	t.Parallel()
	write := func(dir string) error {
		c := &Answers{
			Output: filepath.Join(dir, "agent.yaml"), Force: true,
			Cluster: "http://127.0.0.1:1", Database: "D", Path: "/x/*.csv", Format: "CSV", Table: "T",
		}
		return c.Run(console.Output{})
	}
	inputs := func(dir string) []string {
		t.Helper()
		cfg, err := config.Load(filepath.Join(dir, "agent.yaml"), os.LookupEnv, config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, in := range cfg.Inputs {
			names = append(names, in.Name)
		}
		return names
	}
	without, with := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(with, "conf.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{without, with} {
		if err := write(dir); err != nil {
			t.Fatal(err)
		}
		if got := inputs(dir); !slices.Equal(got, []string{"T"}) {
			t.Errorf("at first: %v", got)
		}
	}
	recipe := filepath.Join(with, "conf.d", "more.yaml")
	if err := os.WriteFile(recipe, []byte("inputs: [{paths: /y/*.csv, table: More}]"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := inputs(with); !slices.Equal(got, []string{"T", "More"}) {
		t.Errorf("with a recipe: %v", got)
	}

	// One that does not go together with the answers is told, and the file is left alone.
	if err := os.WriteFile(recipe, []byte("inputs: [{paths: /y/*.csv, table: T}]"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(with); err == nil || !strings.Contains(err.Error(), "conf.d/more.yaml:1:") {
		t.Errorf("two inputs of one name: %v", err)
	}
}

// TestInitKeepsMode: a file that is overwritten can be read by whom it could before.
func TestInitKeepsMode(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	c := &Answers{Output: path, Force: true}
	if err := c.write("x: y\n"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 || info.Size() != 5 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestInitLeavesNoPart: a file that cannot be written to its end is not left behind, where the next
// run would take it for a configuration that is there already.
func TestInitLeavesNoPart(t *testing.T) {
	t.Parallel()
	const childOutput = "KUSTO_AGENT_TEST_OUTPUT" // set in the environment of a child, whose files are bounded
	if path := os.Getenv(childOutput); path != "" {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGXFSZ) // else it ends the process
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 2, Max: 2}); err != nil {
			t.Fatal(err)
		}
		for _, force := range []bool{false, true} {
			if err := (&Answers{Output: path, Force: force}).write("x: y\n"); !errors.Is(err, syscall.EFBIG) {
				t.Fatalf("with --force %v: %v", force, err)
			}
		}
		return
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestInitLeavesNoPart$")
	child.Env = append(os.Environ(), childOutput+"="+filepath.Join(dir, "agent.yaml"))
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}
