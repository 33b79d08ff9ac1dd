package format

import "strings"

// pod is whose log a file is, as the kubelet names it by its path.
type pod struct {
	namespace, name, uid, container string
}

// podOf reads the path of a container's log: …/NAMESPACE_POD_UID/CONTAINER/N.log, or
// …/POD_NAMESPACE_CONTAINER-ID.log of the links that the kubelet makes to it. All is empty
// where a path is neither. No name of Kubernetes has an underscore in it.
func podOf(path string) (p pod) {
	folder, base := cutLast(path)
	if name, found := strings.CutSuffix(base, ".log"); found && strings.Count(name, "_") == 2 {
		parts := strings.SplitN(name, "_", 3)
		if at := strings.LastIndexByte(parts[2], '-'); at > 0 && isContainerID(parts[2][at+1:]) && parts[0] != "" && parts[1] != "" {
			return pod{namespace: parts[1], name: parts[0], container: parts[2][:at]}
		}
	}
	above, container := cutLast(folder)
	_, owner := cutLast(above)
	namespace, rest, _ := strings.Cut(owner, "_")
	name, uid, _ := strings.Cut(rest, "_")
	if namespace == "" || name == "" || uid == "" || container == "" || strings.Contains(uid, "_") {
		return pod{}
	}
	return pod{namespace: namespace, name: name, uid: uid, container: container}
}

// cutLast cuts the last name off a path; of a path with none before it is all.
func cutLast(path string) (before, name string) {
	at := strings.LastIndexByte(path, '/')
	if at < 0 {
		return "", path
	}
	return path[:at], path[at+1:]
}

// isContainerID says that a word is the id that a runtime gives a container.
func isContainerID(word string) bool {
	return len(word) == 64 && strings.Trim(word, "0123456789abcdef") == ""
}
