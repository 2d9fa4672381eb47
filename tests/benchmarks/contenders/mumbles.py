print("not JSON")
