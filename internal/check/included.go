package check

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// left warns of files that look like files of inputs and are no part of the configuration: those in conf.d
// beside the main file, where packages have them, and in the folders of the files that are included. An
// input that nobody reads is otherwise seen nowhere: not by setup, and not in the status.
func (r *run) left() {
	main := r.cfg.Files[0]
	folders := []string{filepath.Join(filepath.Dir(main), "conf.d")}
	for _, file := range r.cfg.Files[1:] {
		if folder := filepath.Dir(file); folder != filepath.Dir(main) {
			folders = append(folders, folder)
		}
	}
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		entries, _ := os.ReadDir(folder) // without it nothing is left in it
		for _, e := range entries {
			path := filepath.Join(folder, e.Name())
			ext := filepath.Ext(path)
			if ext != ".yaml" && ext != ".yml" || strings.HasPrefix(e.Name(), ".") || r.included(path) {
				continue
			}
			r.add(Finding{ID: "config.left", Severity: Warning, Where: path,
				What: "this file is not part of the configuration, and its inputs are not read: no pattern of include matches it",
				Fix:  "add it to include of " + main + ", as in include: [conf.d/*" + ext + "], and reload; or, if it is not wanted, give it another extension"})
		}
	}
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
