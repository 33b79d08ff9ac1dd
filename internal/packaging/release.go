package main

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// release is what one version is made of, for all machines.
type release struct {
	options
	when time.Time                    // of the commit; that of every file
	work string                       // a folder for what is made on the way
	made map[string][sha256.Size]byte // the hash of each file that was written, by its name
}

// build makes all packages and returns the names of all files, sorted, behind which is that with
// their hashes.
func build(o options) (names []string, err error) {
	r := &release{options: o, made: make(map[string][sha256.Size]byte)}
	if err := r.identify(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.output, 0o755); err != nil {
		return nil, err
	}
	if r.work, err = os.MkdirTemp("", "kusto-agent-packaging-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(r.work)
	host, err := r.hostAgent()
	if err != nil {
		return nil, err
	}
	images := make(map[string]v1.Image)
	for _, arch := range r.arches {
		if images[arch], err = r.machine(arch, host); err != nil {
			return nil, fmt.Errorf("%s: %w", arch, err)
		}
	}
	archive, err := r.imageArchive(images)
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	if err := r.write(fmt.Sprintf("kusto-agent-%s-image.tar", r.version), archive); err != nil {
		return nil, err
	}
	names, sums := r.sums()
	return append(names, "SHA256SUMS"), r.write("SHA256SUMS", sums)
}

// identify asks git for what the options do not say.
func (r *release) identify() (err error) {
	if r.commit == "" {
		if r.commit, err = r.git("rev-parse", "HEAD"); err != nil {
			return err
		}
		changes, err := r.git("status", "--porcelain", "--untracked-files=no")
		if err != nil {
			return err
		}
		if changes != "" {
			r.commit += "-modified"
		}
	}
	if r.date == "" {
		if r.date, err = r.git("show", "--no-patch", "--format=%cI", "HEAD"); err != nil {
			return err
		}
	}
	when, err := time.Parse(time.RFC3339, r.date)
	if err != nil {
		return fmt.Errorf("the time of the commit: %w", err)
	}
	r.when = when.UTC()
	r.date = r.when.Format(time.RFC3339)
	if r.version == "" {
		// Sorts by time, so that a package made later is an upgrade.
		r.version = fmt.Sprintf("0.0.0+git%s.%.12s", r.when.Format("20060102150405"), r.commit)
		if strings.HasSuffix(r.commit, "-modified") {
			r.version += ".modified"
		}
	}
	return nil
}

func (r *release) git(args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", r.root}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w; without git, name --commit and --date", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// machine makes what there is for one machine and returns the image. The agent at host runs on this
// one.
func (r *release) machine(arch, host string) (v1.Image, error) {
	tree, bom, err := r.content(arch, host)
	if err != nil {
		return nil, err
	}
	base := fmt.Sprintf("kusto-agent-%s-linux-%s", r.version, arch)
	archive, err := r.archive(base, tree)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{base + ".tar.gz": archive, base + ".cdx.json": bom}
	for _, kind := range []string{"deb", "rpm"} {
		name, text, err := r.pack(kind, arch, tree)
		if err != nil {
			return nil, err
		}
		files[name] = text
	}
	for name, text := range files {
		if err := r.write(name, text); err != nil {
			return nil, err
		}
	}
	return r.image(arch, tree)
}

// content is what is installed on one machine, and the list of its components.
func (r *release) content(arch, host string) (tree []file, bom []byte, err error) {
	binary, err := r.compile(arch)
	if err != nil {
		return nil, nil, err
	}
	third, err := r.thirdParties(arch)
	if err != nil {
		return nil, nil, err
	}
	if bom, err = r.components(arch, binary, third); err != nil {
		return nil, nil, err
	}
	tree, err = r.tree(binary, host, bom, third)
	return tree, bom, err
}

func (r *release) write(name string, text []byte) error {
	r.made[name] = sha256.Sum256(text)
	return os.WriteFile(filepath.Join(r.output, name), text, 0o644)
}

// sums are the names of the files that were written, sorted, and the lines that sha256sum --check
// takes.
func (r *release) sums() (names []string, lines []byte) {
	names = slices.Sorted(maps.Keys(r.made))
	for _, name := range names {
		lines = fmt.Appendf(lines, "%x  %s\n", r.made[name], name)
	}
	return names, lines
}
