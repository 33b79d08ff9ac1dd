package format

import "strings"

// pod is whose log a file is, as the kubelet names it by its path.
type pod struct {
	namespace, name, uid, container string
}

// podOf returns namespace, pod, uid and container from the path of a container log:
// …/NAMESPACE_POD_UID/CONTAINER/N.log, or …/POD_NAMESPACE_CONTAINER-ID.log, the form of the
// kubelet's links. No name in Kubernetes has an underscore. The result is empty if the path has
// neither form.
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

// cutLast returns the last name of a path and what comes before it; before is empty if there is
// only one name.
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
