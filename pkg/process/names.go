package process

import "strconv"

// columnNames are the source's names, exactly, except where a table cannot have
// them: an empty name becomes column_N by its place, and a second "a" becomes
// a_2. A name that the source has itself is never taken for another column.
func columnNames(source []string) []string {
	taken := make(map[string]bool, len(source))
	for _, name := range source {
		taken[name] = true
	}
	taken[""] = true
	next := map[string]int{} // the suffix last tried for a name, less one
	given := make(map[string]bool, len(source))
	names := make([]string, len(source))
	for i, name := range source {
		if name != "" && !given[name] {
			given[name] = true
			names[i] = name
			continue
		}
		if name == "" {
			name = "column_" + strconv.Itoa(i+1)
		}
		candidate := name
		for taken[candidate] {
			next[name]++
			candidate = name + "_" + strconv.Itoa(next[name]+1)
		}
		taken[candidate] = true
		names[i] = candidate
	}
	return names
}
