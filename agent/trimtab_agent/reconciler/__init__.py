"""The reconciler: observe, plan, check, execute; frozen data between the four."""
