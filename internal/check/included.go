package check

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"kusto-agent/internal/config"
)

// maxLeft is the size up to which a file is looked at, in bytes.
const maxLeft = 1 << 20

// left warns of files that hold inputs and are no part of the configuration: those in conf.d beside the main
// file, where packages have them, and in the folders of the files that are included. An input that nobody
// reads is otherwise seen nowhere: not by setup, and not in the status.
func (r *run) left() {
	main := r.cfg.Files[0]
	beside := config.Absolute(filepath.Dir(main))
	own := filepath.Join(beside, "conf.d")
	folders := []string{own}
	for _, file := range r.cfg.Files[1:] {
		if folder := config.Absolute(filepath.Dir(file)); folder != beside {
			folders = append(folders, folder)
		}
	}
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		entries, _ := os.ReadDir(folder) // without it nothing is left in it
		for _, e := range entries {
			path := filepath.Join(folder, e.Name())
			ext := filepath.Ext(path)
			if ext != ".yaml" && ext != ".yml" || strings.HasPrefix(e.Name(), ".") || r.included(path) || !holdsInputs(path, folder == own) {
				continue
			}
			missing := path
			if folder == own {
				missing = filepath.Join(folder, "*"+ext)
			}
			if name, err := filepath.Rel(beside, missing); err == nil && filepath.IsLocal(name) {
				missing = name
			}
			r.add(Finding{ID: "config.left", Severity: Warning, Where: path,
				What: "this file is not part of the configuration, and its inputs are not read: no pattern of include matches it",
				Fix:  "add it to include of " + main + ", as in include: [" + missing + "], and reload; or, if it is not wanted, give it another extension"})
		}
	}
}

// holdsInputs says whether a file that is not included looks as if it should be: it has inputs. In the folder
// that is there for such files (own), one that cannot be read or understood does too. Elsewhere are files of
// other programs, and whole configurations of other agents.
func holdsInputs(path string, own bool) bool {
	f, err := os.Open(path)
	if err != nil {
		return own
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxLeft))
	var keys map[string]yaml.Node
	if err != nil || yaml.Unmarshal(text, &keys) != nil {
		return own
	}
	inputs, has := keys["inputs"]
	if own {
		return has
	}
	_, one := keys["cluster"]
	_, several := keys["clusters"]
	return inputs.Kind == yaml.SequenceNode && !one && !several
}

// included says whether path is one of the files of the configuration, by whatever name.
func (r *run) included(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return true // nothing that could be read
	}
	return slices.ContainsFunc(r.cfg.Files, func(file string) bool {
		other, err := os.Stat(file)
		return err == nil && os.SameFile(info, other)
	})
}
