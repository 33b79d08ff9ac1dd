package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cavaliergopher/cpio"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"kusto-agent/internal/nest"
)

// untar unpacks an archive below a folder, and gives files to who has them in it where
// the test may.
func untar(t *testing.T, from io.Reader, to string) {
	t.Helper()
	for r := tar.NewReader(from); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(to, head.Name)
		switch head.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(at, 0o755)
		case tar.TypeReg:
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(at, text, 0o600)
			}
		default:
			t.Errorf("%s is of type %c", head.Name, head.Typeflag)
		}
		if os.Geteuid() == 0 && err == nil {
			err = os.Chown(at, head.Uid, head.Gid)
		}
		if err = errors.Join(err, os.Chmod(at, head.FileInfo().Mode().Perm())); err != nil {
			t.Fatal(err)
		}
	}
}

// pulled is the image of a machine as it is in the archive that is loaded, unpacked to
// a folder.
func pulled(t *testing.T, m *made) (img v1.Image, root string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	untar(t, bytes.NewReader(m.imageTar(t)), filepath.Join(dir, "oci"))
	at, err := layout.FromPath(filepath.Join(dir, "oci"))
	if err != nil {
		t.Fatal(err)
	}
	top, err := at.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	list, err := top.IndexManifest()
	if err != nil || len(list.Manifests) != 1 || list.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "1.0.0" {
		t.Fatalf("%+v %v", list, err)
	}
	index, err := top.ImageIndex(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if list, err = index.IndexManifest(); err != nil || len(list.Manifests) != 1 || list.Manifests[0].Platform.Architecture != m.arch {
		t.Fatalf("%+v %v", list, err)
	}
	if img, err = index.Image(list.Manifests[0].Digest); err != nil {
		t.Fatal(err)
	}
	root = filepath.Join(dir, "root")
	files := mutate.Extract(img)
	defer files.Close()
	untar(t, files, root)
	return img, root
}

// TestImage: the image has the static binary, what it needs and no more, for both machines.
func TestImage(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		t.Run(arch, func(t *testing.T) {
			img, root := pulled(t, buildFor(t, arch))
			c, err := img.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if c.Architecture != arch || c.OS != "linux" || c.Config.User != "65532:0" || !slices.Equal(c.Config.Entrypoint, []string{"/usr/bin/kusto-agent"}) || c.Config.Labels["org.opencontainers.image.version"] != "1.0.0" {
				t.Errorf("%+v", c)
			}
			binary, err := elf.Open(filepath.Join(root, "usr/bin/kusto-agent"))
			if err != nil {
				t.Fatal(err)
			}
			defer binary.Close()
			if libraries, err := binary.ImportedLibraries(); binary.Machine != machine || len(libraries) > 0 || err != nil {
				t.Errorf("for %v, with %v %v", binary.Machine, libraries, err)
			}
			for _, p := range binary.Progs {
				if p.Type == elf.PT_INTERP {
					t.Error("it has an interpreter")
				}
			}
			certificates, err := os.ReadFile(filepath.Join(root, authorities))
			if pool := x509.NewCertPool(); err != nil || !pool.AppendCertsFromPEM(certificates) || bytes.Count(certificates, []byte("BEGIN CERT")) < 80 {
				t.Errorf("%d certificates, %v", bytes.Count(certificates, []byte("BEGIN CERT")), err)
			}
			if found, err := filepath.Glob(filepath.Join(root, "usr/*bin/*")); len(found) != 1 || err != nil {
				t.Errorf("programs: %v %v", found, err)
			}
			for _, want := range []string{"usr/share/doc/kusto-agent/third-party/github.com/spf13/cobra/LICENSE.txt", "usr/share/doc/kusto-agent/copyright", "usr/share/zoneinfo.zip", "etc/kusto-agent"} {
				if _, err := os.Stat(filepath.Join(root, want)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

const inImageConfig = `cluster: URL
database: Logs
auth: {method: none}
inputs: [{paths: [/logs/*.log], parse: syslog, time: {zone: Europe/Berlin}, table: T, mapping: m}]
`

// TestImageRuns: in the image's root, read-only, as a user that nobody knows, the agent
// ships what is there.
func TestImageRuns(t *testing.T) {
	m := theBuild(t)
	if os.Geteuid() != 0 {
		t.Skip("the kernel refuses chroot to a user who is not root")
	}
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("the kernel refuses a mount namespace: %v %s", err, out)
	}
	img, root := pulled(t, m)
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	host := filepath.Join(m.work, "kusto-agent-"+m.arch)
	address := emulate(t, host)
	put(t, filepath.Join(root, "etc/kusto-agent/agent.yaml"), []byte(strings.Replace(inImageConfig, "URL", address, 1)), 0o644)
	put(t, filepath.Join(root, "logs/a.log"), []byte("Mar  1 12:00:00 web app[7]: hello\n"), 0o644)
	run := func(user string, mounts string, args ...string) (string, error) {
		script := "mount --bind $ROOT $ROOT && mount -o remount,ro,bind $ROOT && " + mounts + `exec chroot --userspec=` + user + ` $ROOT "$@"`
		cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-ec", script, "sh"}, append(c.Config.Entrypoint, args...)...)...)
		cmd.Env = append(slices.Clone(c.Config.Env), "PATH="+os.Getenv("PATH"), "ROOT="+root)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(c.Config.User, "", "version"); err != nil || !strings.HasPrefix(out, "kusto-agent 1.0.0\ncommit f80da32c") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := run(c.Config.User, "", "run", "--once"); err == nil || !strings.Contains(out, "read-only") {
		t.Errorf("without a volume: %v: %s", err, out)
	}
	for _, user := range []string{c.Config.User, "12345:0", "12345:54321"} {
		uid, gid, _ := strings.Cut(user, ":")
		volume := fmt.Sprintf("mount -t tmpfs -o mode=0700,uid=%s,gid=%s none $ROOT%s && ", uid, gid, stateDir)
		if out, err := run(user, volume, append(slices.Clone(c.Config.Cmd), "--once")...); err != nil {
			t.Errorf("as %s: %v: %s", user, err, out)
		}
	}
	if rows := rowsOf(address, "T"); strings.Count(rows, "hello") != 4 || strings.Count(rows, "12:00:00+01:00") != 4 { // one of them of the run without a volume
		t.Errorf("stored is %q", rows)
	}
}

// emulate runs an emulator until the end of the test and returns its URL.
func emulate(t *testing.T, program string) (address string) {
	t.Helper()
	return start(t, `http://127\.0\.0\.1:[0-9]+`, program, "emulator", "--open", "--listen", "127.0.0.1:0")
}

// start runs a program until the end of the test and returns what it says of an address.
func start(t *testing.T, address string, program string, args ...string) (said string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	out, err := cmd.StderrPipe()
	if err == nil {
		cmd.Stdout = cmd.Stderr
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	// Started here, ended by the end of the process, which Cleanup brings about.
	go func() {
		var all strings.Builder
		told := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			all.WriteString(lines.Text() + "\n")
			if at := regexp.MustCompile(address).FindString(lines.Text()); at != "" && !told {
				told = true
				found <- at
			}
		}
		if !told {
			found <- all.String()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	select {
	case said = <-found:
	case <-time.After(nest.Deadline):
		t.Fatalf("%s does not listen", program)
	}
	if !regexp.MustCompile(address).MatchString(said) {
		t.Fatalf("%s ended:\n%s", program, said)
	}
	return said
}

// TestOtherMachine: the binary for arm64 runs, by way of qemu where this is another machine,
// and ships what is in a file.
func TestOtherMachine(t *testing.T) {
	m := buildFor(t, "arm64")
	program := []string{filepath.Join(m.work, "kusto-agent-arm64")}
	if m.arch != runtime.GOARCH {
		at := slices.IndexFunc(emulators, func(name string) bool { _, err := exec.LookPath(name); return err == nil })
		if at < 0 {
			t.Skipf("needs one of %v, which are not installed", emulators)
		}
		program = append([]string{emulators[at]}, program...)
	}
	out, err := exec.Command(program[0], append(program[1:], "version")...).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "kusto-agent 1.0.0\ncommit f80da32c108c415ca19e643f461a677a00000000\ndate 2026-01-02T03:04:05Z\n") || !strings.HasSuffix(string(out), "linux/arm64\n") {
		t.Errorf("%v: %s", err, out)
	}
	here := theBuild(t)
	address := emulate(t, filepath.Join(here.work, "kusto-agent-"+here.arch))
	dir := t.TempDir()
	config := filepath.Join(dir, "agent.yaml")
	put(t, config, []byte(fmt.Sprintf("cluster: %s\ndatabase: Logs\nauth: {method: none}\nstate_dir: %s/state\ninputs: [{paths: %[2]s/*.json, table: T, mapping: m}]\n", address, dir)), 0o600)
	put(t, filepath.Join(dir, "a.json"), []byte("{\"seq\":1}\n{\"seq\":2}\n"), 0o600)
	for range 2 { // the second run finds the positions of the first
		if out, err := exec.Command(program[0], append(program[1:], "run", "--once", "--config", config)...).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	if rows := rowsOf(address, "T"); rows != "{\"seq\":1}\n{\"seq\":2}\n" {
		t.Errorf("stored is %q", rows)
	}
}

// rowsOf are the records of a table of the emulator, as text.
func rowsOf(address, table string) string {
	return get(address + "/rows?" + url.Values{"db": {"Logs"}, "table": {table}, "format": {"text"}}.Encode())
}

// emulators are the names that one of arm64 has.
var emulators = []string{"qemu-aarch64", "qemu-aarch64-static"}

// TestRPM: the tools of rpm find in the packages what is to be in them.
func TestRPM(t *testing.T) {
	for _, tool := range []string{"rpm", "rpm2cpio"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s, which is not installed", tool)
		}
	}
	for arch, name := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		t.Run(arch, func(t *testing.T) {
			m := buildFor(t, arch)
			dir := t.TempDir()
			_, text, err := m.pack("rpm", arch, m.tree)
			if err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(dir, "agent.rpm")
			put(t, at, text, 0o644)
			rpm := func(args ...string) string {
				t.Helper()
				out, err := exec.Command("rpm", append([]string{"--dbpath", filepath.Join(dir, "db")}, args...)...).Output()
				if err != nil {
					t.Fatalf("rpm %v: %v", args, err)
				}
				return string(out)
			}
			if got := rpm("-qp", "--queryformat", "%{NAME} %{VERSION} %{RELEASE} %{ARCH}", at); got != "kusto-agent 1.0.0 1 "+name {
				t.Errorf("it is %s", got)
			}
			if got := rpm("-K", "--nosignature", at); !strings.Contains(got, "digests OK") {
				t.Errorf("digests: %s", got)
			}
			if got := rpm("-qp", "--scripts", at); !strings.Contains(got, "postinstall") || !strings.Contains(got, "next three steps") {
				t.Errorf("scripts: %s", got)
			}
			if got := rpm("-qpc", at); got != "/etc/kusto-agent/agent.yaml\n" {
				t.Errorf("configuration: %s", got)
			}
			// Read here and unpacked nowhere: its paths begin at the root of the machine.
			// rpm2cpio fails at the end, for the library that packs leaves out a length.
			out, err := exec.Command("rpm2cpio", at).Output()
			if len(out) == 0 {
				t.Fatal(err)
			}
			has := make(map[string]file)
			for r := cpio.NewReader(bytes.NewReader(out)); ; {
				head, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(r)
				if err != nil {
					t.Fatal(err)
				}
				has[head.Name] = file{mode: head.FileInfo().Mode().Perm(), text: text}
			}
			n := 0
			for _, f := range m.tree {
				if f.only == "deb" || f.folder {
					continue
				}
				n++
				if got := has[f.path]; !bytes.Equal(got.text, f.text) || got.mode != f.mode {
					t.Errorf("%s: mode %o, want %o; %d bytes, want %d", f.path, got.mode, f.mode, len(got.text), len(f.text))
				}
			}
			if list := strings.Count(rpm("-qpl", at), "\n"); n < 50 || list < n {
				t.Errorf("%d files, of which %d are listed", n, list)
			}
		})
	}
}
