package main

import (
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Paths in the image.
const (
	stateDir    = "/var/lib/kusto-agent"
	authorities = "/etc/ssl/certs/ca-certificates.crt"
	zones       = "/usr/share/zoneinfo.zip"
)

// anyone is the user of the image where none is named: no user of a machine.
const anyone = 65532

// inImage are the files of a package that the image has too.
var inImage = []string{"/usr/bin/", docs + "/copyright", docs + "/kusto-agent.cdx.json", docs + "/third-party/"}

// image is the agent for one machine on nothing else: no shell, no libraries. Whoever
// runs it may be any user, and its root can be read-only: only the folder of the state is
// written to.
func (r *release) image(arch string, tree []file) (v1.Image, error) {
	files, err := r.imageFiles(arch, tree)
	if err != nil {
		return nil, err
	}
	layer, err := r.tarOf(files, "")
	if err != nil {
		return nil, err
	}
	made, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	if img, err = mutate.Append(img, mutate.Addendum{Layer: made, History: v1.History{Created: v1.Time{Time: r.when}, CreatedBy: "internal/packaging"}}); err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, r.imageConfig(arch, img))
}

// imageConfig is how the image runs.
func (r *release) imageConfig(arch string, img v1.Image) *v1.ConfigFile {
	c, err := img.ConfigFile()
	if err != nil {
		panic(err) // of an image in memory
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Created, c.Author = "linux", arch, v1.Time{Time: r.when}, r.maintainer
	c.Config = v1.Config{
		User:       fmt.Sprintf("%d:0", anyone),
		Entrypoint: []string{"/usr/bin/kusto-agent"}, Cmd: []string{"run"},
		Env:          []string{"PATH=/usr/bin", "STATE_DIRECTORY=" + stateDir, "ZONEINFO=" + zones},
		ExposedPorts: map[string]struct{}{"5878/tcp": {}},
		WorkingDir:   "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "kusto-agent",
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.revision": r.commit,
			"org.opencontainers.image.created":  r.date,
			"org.opencontainers.image.licenses": unchosen,
		},
	}
	return c
}

// imageFiles are those of the image with the folders they are in, sorted by path.
func (r *release) imageFiles(arch string, tree []file) (all []file, err error) {
	zip, err := r.zoneFile(arch)
	if err != nil {
		return nil, err
	}
	certificates, err := rootCertificates()
	if err != nil {
		return nil, err
	}
	all = []file{
		{path: authorities, mode: 0o644, text: certificates},
		{path: zones, mode: 0o644, text: zip},
		{path: "/etc/passwd", mode: 0o644, text: fmt.Appendf(nil, "root:x:0:0::/:/usr/bin/kusto-agent\nkusto-agent:x:%d:0::%s:/usr/bin/kusto-agent\n", anyone, stateDir)},
		{path: "/etc/group", mode: 0o644, text: []byte("root:x:0:\n")},
		{path: "/etc/kusto-agent", mode: 0o755, folder: true},
		{path: stateDir, mode: 0o770, folder: true, user: anyone}, // and of the group of users that have no name
	}
	for _, f := range tree {
		if !f.folder && slices.ContainsFunc(inImage, func(p string) bool { return f.path == p || strings.HasSuffix(p, "/") && strings.HasPrefix(f.path, p) }) {
			all = append(all, f)
		}
	}
	there := make(map[string]bool)
	for _, f := range all {
		there[f.path] = true
	}
	for _, f := range slices.Clone(all) {
		for dir := path.Dir(f.path); dir != "/" && !there[dir]; dir = path.Dir(dir) {
			there[dir] = true
			all = append(all, file{path: dir, mode: 0o755, folder: true})
		}
	}
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// rootCertificates are those that Mozilla trusts without further conditions, as the Go
// project publishes them: the same on every machine that builds.
func rootCertificates() ([]byte, error) {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // a file has no room for conditions
		}
		cert, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			return nil, fmt.Errorf("root certificates: %w", err)
		}
		fmt.Fprintf(&out, "# %s\n", cert.Subject)
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// zoneFile has the time zones, which a machine without files does not know.
func (r *release) zoneFile(arch string) ([]byte, error) {
	root, _, err := r.toolchain(arch)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(root, "lib/time/zoneinfo.zip"))
}

// imageArchive is an OCI layout with the images of all machines, as a tar archive: what
// container tools load and copy to a registry.
func (r *release) imageArchive(images map[string]v1.Image) ([]byte, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range r.arches {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: images[arch], Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	dir, err := os.MkdirTemp(r.work, "image-")
	if err != nil {
		return nil, err
	}
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return nil, err
	}
	tag := strings.NewReplacer("+", "-", "~", "-").Replace(r.version)
	if err := at.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": "localhost/kusto-agent:" + tag,
	})); err != nil {
		return nil, err
	}
	return r.folderArchive(dir)
}

// folderArchive is a folder as a tar archive.
func (r *release) folderArchive(dir string) ([]byte, error) {
	var all []file
	below := os.DirFS(dir)
	err := fs.WalkDir(below, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		f := file{path: name, mode: 0o755, folder: d.IsDir()}
		if !f.folder {
			f.mode = 0o644
			f.text, err = fs.ReadFile(below, name)
		}
		all = append(all, f)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r.tarOf(all, "")
}
