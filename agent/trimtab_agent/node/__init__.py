"""The node agent: finds broken GPUs, says so, and exports metrics. Imports neither pulumi nor boto3."""
